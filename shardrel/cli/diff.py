"""``shardrel diff``: what changed between two releases."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import Root
from shardrel.cli.changes import changes_table, in_short
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.files import writing
from shardrel.cli.output import Result, Table, meter
from shardrel.cli.roots import root_and_gate
from shardrel.cli.settings import Settings
from shardrel.cli.words import beginning

if TYPE_CHECKING:
    from shardrel.data.diff import Difference, Step
    from shardrel.records.evolution import Change
    from shardrel.records.release import Release
    from shardrel.store.port import Store


def diff(
    settings: Settings,
    old: Root,
    new: Root,
    limit: Annotated[int, typer.Option(min=0, max=10_000, metavar="N", help="Members to show.")] = 20,
    to_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="Write every member that differs, a JSON line each.")
    ] = None,
    decrypt: Decrypt = None,
) -> Result:
    """Show what changed between two releases: members by split, shards, record schema."""
    from shardrel.data.diff import Difference, compare_members, members_of
    from shardrel.data.reading import stored_reading

    store = the_store(settings)
    roots = [root_and_gate(settings, store, text)[0] for text in (old, new)]
    before, after = (_release(store, root) for root in roots)
    reading = stored_reading(store, unlocked(decrypt))
    found = Difference()
    shown: list[dict[str, Any]] = []
    total = before.totals.records + after.totals.records
    with meter("diff", quiet=settings.as_json) as progress, _lines_to(to_file) as write:
        for step in compare_members(members_of(store, before, reading), members_of(store, after, reading)):
            found.add(step)
            shown += islice(members(step), limit - len(shown))
            for member in members(step) if to_file else ():
                write(member)
            progress(found.added + found.removed + 2 * (found.changed + found.unchanged), total)
    return _result(roots, (before, after), found, shown, _changes(store, roots[0], before, after), to_file)


def members(step: "Step") -> Iterator[dict[str, Any]]:
    """Every member of a range that differs, as a person reads it."""
    for kind, table in (("added", step.added), ("removed", step.removed)):
        for row in table.select(["sample_id", "split"]).to_pylist():
            yield {"sampleId": row["sample_id"], "change": kind, "split": row["split"], "was": None, "fields": []}
    splits = step.before.column("split").to_pylist()
    differs = {name: values.to_pylist() for name, values in step.fields.items()}
    for at, row in enumerate(step.changed.select(["sample_id", "split"]).to_pylist()):
        fields = [name for name, values in differs.items() if values[at]]
        was = splits[at] if splits[at] != row["split"] else None
        yield {"sampleId": row["sample_id"], "change": "changed", "split": row["split"], "was": was, "fields": fields}


def _release(store: "Store", root: str) -> "Release":
    from shardrel.canonical import json as canonical
    from shardrel.records.release import Release
    from shardrel.store.objects import get_by_digest

    return canonical.decode(get_by_digest(store, root), Release)


def _changes(store: "Store", root: str, before: "Release", after: "Release") -> "list[Change]":
    """How the record schemas differ; with the renames that were declared, where the later release names the earlier."""
    from shardrel.records.evolution import SchemaEvolution
    from shardrel.records.schema import RecordSchema
    from shardrel.records.schema_changes import compare
    from shardrel.store.objects import get_record

    if before.record_schema == after.record_schema:
        return []
    named = after.schema_evolution
    report = None if named is None else get_record(store, named, SchemaEvolution)
    renames = report.renames if report is not None and report.previous == root else ()
    old, new = (get_record(store, release.objects.record_schema, RecordSchema) for release in (before, after))
    return compare(old, new, renames)


@contextmanager
def _lines_to(path: Path | None) -> "Iterator[Any]":
    if path is None:
        yield None
        return
    with writing(path) as write:
        yield lambda value: write((json.dumps(value, ensure_ascii=False) + "\n").encode())


def _result(
    roots: "list[Any]",
    releases: "tuple[Release, Release]",
    found: "Difference",
    shown: list[dict[str, Any]],
    changes: "list[Change]",
    to_file: Path | None,
) -> Result:
    import msgspec

    before, after = releases
    shards = _shards(before, after)
    return Result(
        data={
            "from": _side(roots[0], before),
            "to": _side(roots[1], after),
            **_counted(found),
            "shards": shards,
            "schemaChanges": [msgspec.to_builtins(change) for change in changes],
            "members": shown,
            "list": None if to_file is None else str(to_file),
        },
        headline=f"{found.added:,} added, {found.removed:,} removed, {found.changed:,} changed, "
        f"{found.unchanged:,} as before",
        facts=[
            ("from", roots[0]),
            ("to", roots[1]),
            *_moves(before, after, shards),
            ("record schema", in_short(changes)),
            *([("list", to_file)] if to_file else []),
        ],
        tables=_tables(found, shown, changes, releases),
    )


def _shards(before: "Release", after: "Release") -> dict[str, int]:
    old, new = ({shard.digest for shard in release.shards} for release in (before, after))
    return {"same": len(old & new), "removed": len(old - new), "added": len(new - old)}


def _counted(found: "Difference") -> dict[str, Any]:
    import msgspec

    return {
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "unchanged": found.unchanged,
        "changedFields": found.fields,
        "splits": {name: msgspec.to_builtins(one) for name, one in sorted(found.splits.items())},
    }


def _moves(before: "Release", after: "Release", shards: dict[str, int]) -> list[tuple[str, object]]:
    return [
        ("records", _moved(before.totals.records, after.totals.records)),
        ("tokens", _moved(before.totals.tokens, after.totals.tokens)),
        ("shards", f"{shards['same']} the same, {shards['removed']} gone, {shards['added']} new"),
        ("tombstones", _moved(before.tombstone_watermark, after.tombstone_watermark)),
        ("benchmarks", _moved(before.benchmark_fence, after.benchmark_fence)),
    ]


def _side(root: str, release: "Release") -> dict[str, Any]:
    import msgspec

    return {
        "root": root,
        "snapshot": release.dataset_snapshot,
        "recordSchema": release.record_schema,
        "totals": msgspec.to_builtins(release.totals),
        "tombstoneWatermark": release.tombstone_watermark,
        "benchmarkFence": release.benchmark_fence,
    }


def _moved(was: int, now: int) -> str:
    return f"{was:,} → {now:,}" if was != now else f"{now:,}"


def _tables(
    found: "Difference", shown: list[dict[str, Any]], changes: "list[Change]", releases: "tuple[Release, Release]"
) -> list[Table]:
    totals = [release.totals.splits for release in releases]
    names = sorted(totals[0].keys() | totals[1].keys() | found.splits.keys())
    records = [[side[name].records if name in side else 0 for name in names] for side in totals]
    rows = []
    for at, name in enumerate(names):
        one = found.splits.get(name)
        counts = (one.added, one.removed, one.changed) if one else (0, 0, 0)
        rows.append((name, f"{records[0][at]:,}", f"{records[1][at]:,}", *(f"{count:,}" for count in counts)))
    by_split = Table(title="By split", columns=["split", "was", "is", "added", "removed", "changed"], rows=rows)
    tables = [beginning(by_split)]
    fields = [(name, f"{count:,}") for name, count in found.fields.items() if count]
    if fields:
        tables.append(Table(title="What changed", columns=["field", "members"], rows=fields))
    if changes:
        tables.append(beginning(changes_table(changes)))
    if shown:
        members = [
            (one["change"], f"{one['was']} → {one['split']}" if one["was"] else one["split"], one["sampleId"], ", ".join(one["fields"]))
            for one in shown
        ]  # fmt: skip
        more = found.added + found.removed + found.changed - len(shown)
        title = f"Members, and {more:,} more (--limit, --list)" if more else "Members"
        tables.append(Table(title=title, columns=["change", "split", "sample id", ""], rows=members))
    return tables
