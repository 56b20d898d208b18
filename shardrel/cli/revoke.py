"""``shardrel revoke``: a root becomes INVALID."""

from typing import Annotated

import typer

from shardrel.cli.access import full_digest, the_root, the_store_to_write
from shardrel.cli.arguments import OperationId, Root
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate


def revoke(
    settings: Settings,
    root: Root,
    reason: Annotated[str, typer.Option("--reason", metavar="CODE", help="Lower-case words, digits, dots, dashes.")],
    report: Annotated[
        str | None, typer.Option("--report", metavar="DIGEST", help="A FAILED report about this root, as the ground.")
    ] = None,
    operation_id: OperationId = None,
) -> Result:
    """Make a root INVALID and close its permits; only a later full verification and fresh approvals lift it."""
    from shardrel.gate.revoke import revoke as invalidate

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    digest = the_root(root, list(view.body.candidates))
    ground = None if report is None else full_digest(report)
    caller = call_as(settings, view, "governor", operation_id=operation_id)
    done = invalidate(store, settings.dataset, digest, reason, caller, report=ground)
    return Result(
        data={
            "root": done.root,
            "state": done.state,
            "closedPermits": list(done.closed_permits),
            "operationId": done.operation_id,
        },
        headline=f"The root is {done.state}",
        facts=[("root", done.root), ("closed permits", len(done.closed_permits))],
    )
