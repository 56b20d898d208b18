"""``shardrel rollback``: a higher generation at an old root."""

from typing import Annotated

import typer

from shardrel.cli.access import the_root, the_store_to_write
from shardrel.cli.admit import moved
from shardrel.cli.arguments import Alias, ExpectGeneration, OperationId
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate


def rollback(
    settings: Settings,
    alias: Alias,
    to: Annotated[str, typer.Option("--to", metavar="ROOT", help="A root that the alias pointed to before.")],
    expect_generation: ExpectGeneration = None,
    operation_id: OperationId = None,
) -> Result:
    """Point an alias at a root that was admitted before, if it still passes at today's fences."""
    from shardrel.gate.rollback import rollback as move_back

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    digest = the_root(to, list(view.body.candidates))
    caller = call_as(settings, view, "releaser", operation_id=operation_id)
    done = move_back(store, settings.dataset, digest, alias, caller, expect_generation=expect_generation, view=view)
    return moved(done)
