"""``shardrel fence``: what must never be in a release from now on."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from shardrel.cli.access import the_store_to_write
from shardrel.cli.arguments import OperationId
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate


def fence(
    settings: Settings,
    kind: Annotated[Literal["tombstones", "benchmarks"], typer.Argument(help="Which log.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, an entry a line.")],
    operation_id: OperationId = None,
) -> Result:
    """Append entries to a log and advance its fence: every permit that is bound to less closes at once."""
    from shardrel.gate.fence import advance
    from shardrel.gate.fence_files import read_benchmarks, read_tombstones

    store = the_store_to_write(settings)
    entries = read_tombstones(file) if kind == "tombstones" else read_benchmarks(file)
    caller = call_as(settings, the_gate(settings, store), "governor", operation_id=operation_id)
    done = advance(store, settings.dataset, kind, entries, caller)
    return Result(
        data={
            "kind": done.kind,
            "watermark": done.watermark,
            "closedPermits": list(done.closed_permits),
            "appended": done.appended,
        },
        headline=f"The fence of {done.kind} stands at {done.watermark}",
        facts=[("new entries", done.appended), ("closed permits", len(done.closed_permits))],
    )
