"""``shardrel admit``: the pointer flip."""

from typing import TYPE_CHECKING

from shardrel.cli.access import the_root, the_store_to_write
from shardrel.cli.arguments import Alias, ExpectGeneration, OperationId, Root
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate

if TYPE_CHECKING:
    from shardrel.gate.admit import Moved


def admit(
    settings: Settings,
    root: Root,
    alias: Alias,
    expect_generation: ExpectGeneration = None,
    operation_id: OperationId = None,
) -> Result:
    """Point an alias at a verified and approved root."""
    from shardrel.gate.admit import admit as move_to

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    digest = the_root(root, list(view.body.candidates))
    caller = call_as(settings, view, "releaser", operation_id=operation_id)
    return moved(move_to(store, settings.dataset, digest, alias, caller, expect_generation=expect_generation))


def moved(done: "Moved") -> Result:
    """What is said of a move of an alias."""
    return Result(
        data={
            "alias": done.alias,
            "root": done.root,
            "generation": done.generation,
            "permit": done.permit,
            "transition": done.transition,
            "operationId": done.operation_id,
            "repeated": done.repeated,
        },
        headline=f"{done.alias} is at generation {done.generation}",
        facts=[("root", done.root), ("permit", done.permit), ("transition", done.transition)],
    )
