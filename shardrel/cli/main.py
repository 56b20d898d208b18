"""Entry of the command ``shardrel``: the verbs, and the way out."""

import os
import sys
from collections.abc import Callable, Sequence

import typer

from shardrel.cli import (
    admit,
    affected,
    approve,
    check_proof,
    checkpoint,
    decryption,
    diff,
    digest,
    drill,
    exchange,
    fence,
    gc,
    init,
    keys,
    log,
    policy,
    probe,
    prove,
    publish,
    pull,
    report,
    revoke,
    rollback,
    rotate,
    serve,
    sign,
    snapshot,
    status,
    verify,
    verify_bundle,
)
from shardrel.cli import run as runs
from shardrel.cli.border import guarded
from shardrel.cli.output import Result
from shardrel.cli.settings import group, verb
from shardrel.cli.version import version_option
from shardrel.errors import StoppedError

_Verb = Callable[..., Result]
_NAME = "shardrel"


def build_app(*, for_scripts: bool = False) -> typer.Typer:
    """The whole command line.

    Args:
        for_scripts: To name no verb is a wrong call; people are shown what there is.
    """
    app = typer.Typer(
        name=_NAME,
        add_completion=False,
        no_args_is_help=not for_scripts,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    text = "Releases of training shards that are provable, and whose use is exact."
    app.callback()(group(text, environment=True, own=[version_option(as_json=for_scripts)]))
    for name, function in _VERBS.items():
        app.command(name)(verb(function))
    for name, (text, verbs) in _GROUPS.items():
        app.add_typer(_build_group(text, verbs, for_scripts), name=name)
    return app


def _build_group(text: str, verbs: dict[str, _Verb], for_scripts: bool) -> typer.Typer:
    inner = typer.Typer(no_args_is_help=not for_scripts)
    inner.callback()(group(text))
    for name, function in verbs.items():
        inner.command(name)(verb(function))
    return inner


_VERBS: dict[str, _Verb] = {
    "init": init.init,
    "snapshot": snapshot.snapshot,
    "digest": digest.digest,
    "publish": publish.publish,
    "verify": verify.verify,
    "approve": approve.approve,
    "admit": admit.admit,
    "rollback": rollback.rollback,
    "fence": fence.fence,
    "affected": affected.affected,
    "revoke": revoke.revoke,
    "gc": gc.gc,
    "status": status.status,
    "log": log.log,
    "diff": diff.diff,
    "report": report.report,
    "pull": pull.pull,
    "prove": prove.prove,
    "check-proof": check_proof.check_proof,
    "serve": serve.serve,
    "probe": probe.probe,
    "drill": drill.drill,
    "verify-bundle": verify_bundle.verify_bundle,
}
_GROUPS: dict[str, tuple[str, dict[str, _Verb]]] = {
    "run": (
        "A training job's admission and its life.",
        {"start": runs.start, "show": runs.show, "renew": runs.renew, "finish": runs.finish, "cancel": runs.cancel},
    ),
    "checkpoint": (
        "What a run has committed.",
        {
            "list": checkpoint.list_checkpoints,
            "show": checkpoint.show,
            "preflight": checkpoint.preflight,
            "export": exchange.export_checkpoint,
            "import": exchange.import_checkpoint,
        },
    ),
    "keys": (
        "Keys, local and in KMS.",
        {
            "make": keys.make,
            "show": keys.show,
            "rotate": rotate.rotate,
            "sign": sign.sign,
            "make-encryption": decryption.make_encryption,
        },
    ),
    "policy": ("Who may say what.", {"show": policy.show, "set": policy.set_policy}),
}


def main(arguments: Sequence[str]) -> int:
    """Run one command line.

    Returns:
        The exit status; everything is written and flushed.
    """
    as_json = "--json" in _before_dashes(arguments)
    status = guarded(lambda: _invoke(arguments, as_json), as_json=as_json)
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _invoke(arguments: Sequence[str], as_json: bool) -> int:
    status = build_app(for_scripts=as_json)(args=list(arguments), prog_name=_NAME, standalone_mode=False)
    if status == StoppedError.exit_status:
        # Typer makes a silent exit of Ctrl-C.
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def run() -> None:
    """Console script. Leaves without the interpreter's tear-down.

    Native threads of the Parquet reader have been seen to abort a process while it shuts down,
    after its work; the verdict is written by then, and the exit status must be ours.
    """
    os._exit(main(sys.argv[1:]))
