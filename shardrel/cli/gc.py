"""``shardrel gc``: what nothing pins is let go of, and then deleted."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.arguments import OperationId
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate

if TYPE_CHECKING:
    from shardrel.gate.gc import Collected

_SHOWN = 20


def gc(
    settings: Settings,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted; touch nothing.")] = False,
    keep_generations: Annotated[
        int | None,
        typer.Option(
            "--keep-generations",
            min=0,
            metavar="N",
            help="Generations of each alias that stay beside the current one; the policy's rollback window without.",
        ),
    ] = None,
    abandon: Annotated[
        list[str] | None,
        typer.Option(
            "--abandon",
            metavar="ID",
            help="Give up a publication, a STAGED root, an ended run's last checkpoint, or a dead gc; may be repeated.",
        ),
    ] = None,
    operation_id: OperationId = None,
) -> Result:
    """Delete what no alias, rollback window, run, checkpoint or unfinished publication pins."""
    from shardrel.gate.gc import collect, preview

    given = frozenset(abandon or ())
    if dry_run:
        seen = preview(the_store(settings), settings.dataset, generations=keep_generations, abandon=given)
        return _shown(seen, dry_run=True)
    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "governor", operation_id=operation_id)
    done = collect(store, settings.dataset, caller, generations=keep_generations, abandon=given)
    return _shown(done, dry_run=False)


def _shown(done: "Collected", *, dry_run: bool) -> Result:
    import msgspec

    from shardrel.store.layout import object_key

    kept = _kept(done)
    deleted = [{"key": object_key(one.digest), "digest": one.digest, "version": one.version} for one in done.objects]
    return Result(
        data={
            "dryRun": dry_run,
            "deleted": deleted,
            "locked": msgspec.to_builtins(done.locked),
            "kept": kept,
            "retired": list(done.retired),
            "abandoned": [*done.kept.publications, *done.kept.runs],
            "waiting": list(done.waiting),
            "boundary": done.boundary,
            "resumed": done.resumed,
        },
        headline=f"{len(deleted)} objects {'would be' if dry_run else 'are'} deleted"
        + (", which an interrupted gc had begun" if done.resumed else ""),
        facts=[
            ("kept", len(kept)),
            ("locked by the store", len(done.locked)),
            ("waiting for", ", ".join(done.waiting[:4]) or "nothing"),
            ("boundary", done.boundary),
        ],
        tables=_tables(kept),
    )


def _kept(done: "Collected") -> list[dict[str, Any]]:
    kept = done.kept
    rows: list[dict[str, Any]] = [
        {"kind": "root", "id": root, "pinnedBy": list(pins)} for root, pins in sorted(kept.roots.items())
    ]
    rows += [
        {"kind": "snapshot", "id": snapshot, "pinnedBy": list(pins)}
        for snapshot, pins in sorted(kept.snapshots.items())
    ]
    rows += [{"kind": "snapshot", "id": one, "pinnedBy": ["snapshot:unpublished"]} for one in done.snapshots]
    rows += [
        {"kind": "checkpoint", "id": commit.digest, "run": commit.run, "generation": commit.generation,
         "pinnedBy": list(pins)}
        for commit, pins in kept.commits.items()
    ]  # fmt: skip
    rows += [{"kind": "run", "id": run, "pinnedBy": [f"run:{run}"]} for run in kept.open_runs]
    return rows


def _tables(kept: list[dict[str, Any]]) -> list[Table]:
    rows = [(one["kind"], one["id"], ", ".join(one["pinnedBy"][:4])) for one in kept[:_SHOWN]]
    return [Table(title="Kept", columns=["what", "", "pinned by"], rows=rows)] if rows else []
