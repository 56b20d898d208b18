"""``shardrel fence``: what must never be in a release from now on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli.access import the_store_to_write
from shardrel.cli.arguments import OperationId
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.fence import Advanced


def fence(
    settings: Settings,
    kind: Annotated[Literal["tombstones", "benchmarks"], typer.Argument(help="Which log.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="JSON Lines, an entry a line.")] = None,
    stage: Annotated[
        bool, typer.Option("--stage", help="Append only: nothing closes, and roots can be checked before.")
    ] = False,
    advance_staged: Annotated[
        bool, typer.Option("--advance-staged", help="Advance over what is staged; takes no FILE.")
    ] = False,
    replace_staged: Annotated[bool, typer.Option("--replace-staged", help="Drop what is staged.")] = False,
    operation_id: OperationId = None,
) -> Result:
    """Append entries to a log and advance its fence: every permit that is bound to less closes at once."""
    from shardrel.gate import fence as verbs
    from shardrel.gate.fence_files import read_benchmarks, read_tombstones

    if (file is None) != advance_staged or (advance_staged and (stage or replace_staged)):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "name a FILE, or say --advance-staged alone")
    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "governor", operation_id=operation_id)
    if file is None:
        return _shown(verbs.advance_staged(store, settings.dataset, kind, caller))
    entries = read_tombstones(file) if kind == "tombstones" else read_benchmarks(file)
    verb = verbs.stage if stage else verbs.advance
    return _shown(verb(store, settings.dataset, kind, entries, caller, replace_staged=replace_staged))


def _shown(done: "Advanced") -> Result:
    return Result(
        data={
            "kind": done.kind,
            "watermark": done.watermark,
            "staged": done.staged,
            "closedPermits": list(done.closed_permits),
            "appended": done.appended,
        },
        headline=f"The fence of {done.kind} stands at {done.watermark}",
        facts=[
            ("new entries", done.appended),
            ("staged up to", "nothing" if done.staged is None else done.staged),
            ("closed permits", len(done.closed_permits)),
        ],
    )
