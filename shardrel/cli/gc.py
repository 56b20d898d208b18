"""``shardrel gc``: what nothing pins is let go of, and then deleted."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.arguments import OperationId
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate
from shardrel.cli.words import beginning, counted, listed

if TYPE_CHECKING:
    from shardrel.gate.gc import Collected
    from shardrel.gate.weighing import Kind

_SHOWN = 20
_KINDS = {
    "parquet": "shards and other tables",
    "record": "records",
    "bytes": "others, such as pieces of checkpoints",
}


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
    from shardrel.gate.weighing import weigh

    given = frozenset(abandon or ())
    if dry_run:
        store = the_store(settings)
        seen = preview(store, settings.dataset, generations=keep_generations, abandon=given)
        return _shown(seen, weigh(store, seen.objects))
    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "governor", operation_id=operation_id)
    done = collect(store, settings.dataset, caller, generations=keep_generations, abandon=given)
    return _shown(done, None)


def _shown(done: "Collected", weighed: "list[Kind] | None") -> Result:
    """The answer; of a dry run with what was weighed."""
    import msgspec

    from shardrel.store.layout import object_key

    kept = _kept(done)
    deleted = [{"key": object_key(one.digest), "digest": one.digest, "version": one.version} for one in done.objects]
    return Result(
        data={
            "dryRun": weighed is not None,
            "deleted": deleted,
            "locked": msgspec.to_builtins(done.locked),
            "kept": kept,
            "retired": list(done.retired),
            "abandoned": [*done.kept.publications, *done.kept.runs],
            "waiting": list(done.waiting),
            "held": list(done.held),
            "notes": _notes(done),
            "kinds": None
            if weighed is None
            else [{"kind": one.name, "objects": one.objects, "bytes": one.bytes} for one in weighed],
            "boundary": done.boundary,
            "resumed": done.resumed,
        },
        headline=_headline(len(deleted), dry_run=weighed is not None)
        + (", which an interrupted gc had begun" if done.resumed else ""),
        sentences=_notes(done),
        facts=[
            ("kept", len(kept)),
            ("locked by the store", len(done.locked)),
            ("waiting for", ", ".join(done.waiting[:4]) or "nothing"),
            ("boundary", done.boundary),
        ],
        tables=[*_gone(done, weighed), *_tables(kept, done.held)],
    )


def _headline(deleted: int, *, dry_run: bool) -> str:
    done = "would be" if dry_run else "is" if deleted == 1 else "are"
    return f"{counted(deleted, 'object')} {done} deleted"


def _gone(done: "Collected", weighed: "list[Kind] | None") -> list[Table]:
    """What leaves, of a dry run also how much it is."""
    rows = [(_KINDS[one.name], f"{one.objects:,}", f"{one.bytes:,}") for one in weighed or ()]
    title = "Roots that left" if weighed is None else "Roots that would leave"
    tables = [
        Table(title="Would be deleted", columns=["what", "objects", "bytes"], rows=rows),
        beginning(Table(title=title, columns=["root"], rows=[(root,) for root in done.retired])),
    ]
    return [table for table in tables if table.rows]


def _notes(done: "Collected") -> list[str]:
    """What is waited for, and what a person can do about it."""
    named = [one.partition(":") for one in done.waiting]
    datasets = [name for kind, _, name in named if kind == "dataset"]
    if datasets:
        return [
            f"Nothing is deleted, now or later: the store also has the gate of {listed(datasets)}, which may name the"
            " same objects. What has to be deleted needs a store (a folder or bucket prefix) of its own for each"
            " dataset: init, snapshot and publish there, and take this store away when nothing uses it."
        ]
    ends = [f"publication {name} (or gc --abandon {name})" for kind, _, name in named if kind == "publication"]
    ends += [f"run {name} or its next checkpoint (run finish, run cancel)" for kind, _, name in named if kind == "run"]
    return [f"Some objects stay until the end of {listed(ends)}; then run gc again."] if ends else []


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


def _tables(kept: list[dict[str, Any]], held: "tuple[str, ...]") -> list[Table]:
    rows = [(one["kind"], one["id"], ", ".join(one["pinnedBy"][:4])) for one in kept[:_SHOWN]]
    tables = [
        Table(title="Kept", columns=["what", "", "pinned by"], rows=rows),
        beginning(Table(title="Pinned by nothing, and waiting", columns=["root"], rows=[(root,) for root in held])),
    ]
    return [table for table in tables if table.rows]
