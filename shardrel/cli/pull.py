"""``shardrel pull``: the exact bytes of a release, in a folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import full_digest, is_prefix, the_store
from shardrel.cli.arguments import Root
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.output import Result, meter
from shardrel.cli.roots import root_and_gate
from shardrel.cli.settings import Settings
from shardrel.cli.words import counted
from shardrel.digest import Digest
from shardrel.errors import FormatError, IntegrityError, NotFoundError

if TYPE_CHECKING:
    from shardrel.data.pull import Pulled
    from shardrel.gate.facts import Refuse
    from shardrel.gate.view import GateView
    from shardrel.store.port import Store

_SAYS = {
    "STAGED": "STAGED: it was published, and nobody says that it passed at the fences of now",
    "VERIFIED": "VERIFIED: it passed at the fences of now, and no alias ever pointed to it",
    "ADMITTED": "ADMITTED: an alias points to it, or did",
    "INVALID": "INVALID: it was revoked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the gate has to say of a root: its state, what speaks against it, and whether it was checked lately."""

    state: str | None = None
    against: "Refuse | None" = None
    behind: bool = False


def pull(
    settings: Settings,
    root: Root,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to put the files into.")],
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Only the records of this split.")] = None,
    decrypt: Decrypt = None,
    ciphertext: Annotated[
        bool, typer.Option("--ciphertext", help="Fetch the shards of an encrypted release as they are stored.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also a root that was revoked, or that a verifier found something in.")
    ] = False,
) -> Result:
    """Fetch a release and check every byte of it. Interrupted and run again, it goes on."""
    from shardrel.data.pull import pull_release

    store = the_store(settings)
    digest, view = _named(settings, store, root, anyway=anyway)
    known = _known(store, view, digest, anyway=anyway)
    if known.against is not None and not anyway:
        raise _refused(known.against)
    with meter("pull", quiet=settings.as_json) as progress:
        done = pull_release(
            store,
            digest,
            to,
            split=split,
            progress=progress,
            unlocked=None if ciphertext else unlocked(decrypt),
            ciphertext=ciphertext,
        )
    return _shown(digest, done, known, to, split)


def _shown(root: str, done: "Pulled", known: _Known, to: Path, split: str | None) -> Result:
    against = known.against
    late = "; not checked at the fences of now" if known.behind else ""
    return Result(
        data={
            "root": root,
            "shards": done.shards,
            "records": done.records,
            "bytes": done.bytes,
            "alreadyPresent": done.present,
            "state": known.state,
            "refusal": None if against is None else {"code": against.code.value, "message": against.message},
            "folder": str(to),
        },
        headline=f"{counted(done.shards, 'shard')}, {counted(done.records, 'record')} in {to}",
        sentences=[] if against is None else [f"Don't use it: {against.message} ({against.code.value})."],
        facts=[
            ("root", root),
            ("split", split or "all"),
            ("bytes", f"{done.bytes:,}"),
            ("already there", done.present),
            ("the gate says", _SAYS.get(known.state or "", "nothing of this root") + late),
        ],
    )


def _named(settings: Settings, store: "Store", root: str, *, anyway: bool) -> "tuple[Digest, GateView | None]":
    """The root and the gate; a gate that is broken keeps nobody from a release who wants it anyway."""
    try:
        return root_and_gate(settings, store, root)
    except (FormatError, IntegrityError, NotFoundError):
        if not anyway or is_prefix(root):
            raise
        return full_digest(root), None


def _known(store: "Store", view: "GateView | None", root: str, *, anyway: bool) -> _Known:
    """What the state and the reports say; also of a root that has left the state, for what was said stays."""
    if view is None:
        return _Known()
    from shardrel.errors import ErrorCode
    from shardrel.gate.candidates import state_of
    from shardrel.gate.eligibility import eligible, withheld
    from shardrel.gate.evidence import gather
    from shardrel.gate.facts import Refuse

    body, policy = view.body, view.policy
    try:
        evidence = gather(store, root, policy)
    except (FormatError, IntegrityError, NotFoundError):
        if not anyway:
            raise
        return _Known()
    verdict = eligible(body, root, evidence, policy, ask_approvals=False)
    return _Known(
        state=state_of(body, root, evidence, policy),
        against=withheld(body, root, evidence, policy),
        behind=isinstance(verdict, Refuse) and verdict.code == ErrorCode.GATE_FENCES,
    )


def _refused(against: "Refuse") -> Exception:
    from shardrel.gate.refusals import category_of

    message = f"{against.message}; --anyway fetches it all the same"
    return category_of(against.code)(against.code, message, **against.context)
