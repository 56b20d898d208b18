"""``shardrel run``: a training job's admission and its life."""

from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.arguments import ExpectGeneration, MixedAliases, OperationId, RunId
from shardrel.cli.mix import mix_of
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate
from shardrel.cli.words import run_state, why_closed

if TYPE_CHECKING:
    from shardrel.gate.facts import Refuse
    from shardrel.gate.runs import RunView


def start(
    settings: Settings,
    alias: MixedAliases,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Its name; one is made without.")] = None,
    expect_generation: ExpectGeneration = None,
    operation_id: OperationId = None,
) -> Result:
    """Start a run on what the alias points to now, or a mix of several; nothing in it reads an alias again."""
    from shardrel.gate.runs import start as begin

    first, inputs = mix_of(alias)
    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "runner", operation_id=operation_id)
    return _shown(
        begin(
            store,
            settings.dataset,
            first,
            caller,
            run_id=run_id,
            expect_generation=expect_generation,
            inputs=inputs,
        )
    )


def show(settings: Settings, run: RunId) -> Result:
    """Show a run as the gate has it now."""
    from shardrel.gate.runs import renewal
    from shardrel.gate.runs import show as read

    store = the_store(settings)
    seen = read(store, settings.dataset, run)
    return _shown(seen, renewal(store, settings.dataset, seen))


def renew(settings: Settings, run: RunId, operation_id: OperationId = None) -> Result:
    """Open a new permit for the run's own root at today's fences."""
    from shardrel.gate.runs import renew as again

    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "runner", operation_id=operation_id)
    return _shown(again(store, settings.dataset, run, caller))


def finish(settings: Settings, run: RunId, operation_id: OperationId = None) -> Result:
    """End a run that did what it was for; it no longer pins its root."""
    from shardrel.gate.runs import finish as end

    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "runner", operation_id=operation_id)
    return _shown(end(store, settings.dataset, run, caller))


def cancel(settings: Settings, run: RunId, operation_id: OperationId = None) -> Result:
    """End a run that is given up, such as one whose root has a hit."""
    from shardrel.gate.runs import cancel as end

    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "runner", operation_id=operation_id)
    return _shown(end(store, settings.dataset, run, caller))


def _why(run: "RunView") -> str:
    return "none" if run.closed is None else f"closed by {why_closed(run.closed)}"


def _shown(run: "RunView", refusal: "Refuse | None" = None) -> Result:
    import msgspec

    return Result(
        data={
            "runId": run.run_id,
            "alias": run.alias,
            "root": run.root,
            "generation": run.generation,
            "inputs": msgspec.to_builtins(run.record.inputs),
            "permit": run.permit,
            "state": run.state,
            "closed": msgspec.to_builtins(run.closed),
            "renewal": None if refusal is None else {"code": refusal.code.value, "message": refusal.message},
            "head": msgspec.to_builtins(run.head),
        },
        headline=f"Run {run.run_id} is {run_state(run.state)}",
        sentences=_next(run, refusal),
        facts=[
            *_pinned(run),
            ("permit", run.permit or _why(run)),
            ("checkpoint", "none" if run.head is None else f"generation {run.head.generation}, step {run.head.step:,}"),
        ],
    )


def _pinned(run: "RunView") -> list[tuple[str, str]]:
    if run.record.inputs is None:
        return [("root", run.root), ("alias", f"{run.alias} at generation {run.generation}")]
    return [
        (f"{one.weight / 10_000:g} %", f"{one.root}, {one.alias} at generation {one.generation}")
        for one in run.record.inputs
    ]


def _next(run: "RunView", refusal: "Refuse | None") -> list[str]:
    """What a holder of a closed permit can do: its checkpoints are refused until then, and its root stays."""
    if run.state != "closed":
        return []
    if refusal is None:
        return [f"Its root passed at the fences of now; run: shardrel run renew {run.run_id}"]
    if refusal.code == "permit.recheck-needed":
        # Of a mix, the root that is behind; and whether a full verification is needed.
        return [f"It gets no new permit yet: {refusal.message}"]
    return [f"It gets no new permit: {refusal.message} ({refusal.code.value}); run: shardrel run cancel {run.run_id}"]
