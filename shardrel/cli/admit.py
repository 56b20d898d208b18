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
    done = move_to(store, settings.dataset, digest, alias, caller, expect_generation=expect_generation, view=view)
    return moved(done)


def moved(done: "Moved") -> Result:
    """What is said of a move of an alias; one that somebody else has overtaken since must not pass for the present."""
    overtaken = None if done.now is None else {"generation": done.now.generation, "root": done.now.root}
    headline = f"{done.alias} is at generation {done.generation}"
    facts = [("root", done.root), ("permit", done.permit), ("transition", done.transition)]
    if done.now is not None:
        headline = (
            f"An earlier try took {done.alias} to generation {done.generation}; "
            f"it has been moved on to {done.now.generation} since, and stays there. Run it again to move it anew"
        )
        facts.append(("root now", done.now.root))
    return Result(
        data={
            "alias": done.alias,
            "root": done.root,
            "generation": done.generation,
            "permit": done.permit,
            "transition": done.transition,
            "operationId": done.operation_id,
            "repeated": done.repeated,
            "overtakenBy": overtaken,
        },
        headline=headline,
        facts=facts,
    )
