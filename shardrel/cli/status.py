"""``shardrel status``: the gate as it is now."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.words import beginning, life_data, lives_table, short, why_closed

if TYPE_CHECKING:
    from shardrel.gate.status import Status
    from shardrel.records.probe import KeptProbe


def status(
    settings: Settings,
    permits: Annotated[
        bool, typer.Option("--permits", help="Also every permit that ever was, with what closed it, from the history.")
    ] = False,
) -> Result:
    """Show aliases, fences, runs, permits and candidates."""
    from shardrel.gate.log import read_entries
    from shardrel.gate.permit_lives import permit_lives
    from shardrel.gate.status import read_status
    from shardrel.store.verdicts import kept

    store = the_store(settings)
    seen = read_status(store, settings.dataset)
    lives = permit_lives(read_entries(store, settings.dataset)) if permits else None
    return Result(
        data={
            **_data(seen),
            "store": store.url,
            "probe": _verdict(kept(store, settings.dataset)),
            "permitHistory": None if lives is None else [life_data(life) for life in lives],
        },
        headline=f"{seen.dataset}: transition {seen.sequence}",
        facts=[
            ("store", store.url),
            ("gate", seen.gate_id),
            ("tombstones", _fence(seen.tombstone_watermark, seen.staged.get("tombstones"))),
            ("benchmarks", _fence(seen.benchmark_fence, seen.staged.get("benchmarks"))),
            ("open permits", f"{len(seen.permits):,}"),
            ("open runs", _counted(seen)),
        ],
        tables=[*_tables(seen), *([] if lives is None else [lives_table(lives)])],
    )


def _verdict(found: "KeptProbe | None") -> dict[str, Any] | None:
    import msgspec

    return None if found is None else msgspec.to_builtins(found)


def _counted(seen: "Status") -> str:
    closed = sum(run.closed is not None for run in seen.runs.values())
    return f"{len(seen.runs):,}" + (f", {closed:,} without a permit" if closed else "")


def _fence(watermark: int, staged: int | None) -> str:
    return str(watermark) if staged is None else f"{watermark}, staged up to {staged}"


def _data(seen: "Status") -> dict[str, Any]:
    import msgspec

    plain = msgspec.to_builtins
    return {
        "dataset": seen.dataset,
        "gateId": seen.gate_id,
        "sequence": seen.sequence,
        "head": seen.head,
        "policyDigest": seen.policy,
        "aliases": {name: {"root": a.root, "generation": a.generation} for name, a in seen.aliases.items()},
        "tombstoneWatermark": seen.tombstone_watermark,
        "benchmarkFence": seen.benchmark_fence,
        "staged": dict(seen.staged),
        "permits": plain(seen.permits),
        "runs": plain(seen.runs),
        "publications": plain(seen.publications),
        "retention": {"boundary": seen.retention.boundary, "sweep": plain(seen.retention.sweep)},
        "pins": plain(seen.pins),
        "candidates": seen.candidates,
    }


def _tables(seen: "Status") -> list[Table]:
    held = {(permit.kind, permit.subject) for permit in seen.permits.values()}
    aliases = [
        (name, alias.generation, alias.root, "open" if ("publication", name) in held else "closed")
        for name, alias in seen.aliases.items()
    ]
    candidates = [(state, root) for root, state in seen.candidates.items()]
    publications = [(name, pin.snapshot) for name, pin in seen.publications.items()]
    tables = [
        Table(title="Aliases", columns=["alias", "generation", "root", "permit"], rows=aliases),
        Table(title="Candidates", columns=["state", "root"], rows=candidates),
        Table(title="Open runs", columns=["run", "alias", "root", "step", "permit"], rows=_runs(seen)),
        Table(title="Open permits", columns=["permit", "of", "root", "at", "since"], rows=_permits(seen)),
        Table(title="Unfinished publications", columns=["publication", "snapshot"], rows=publications),
    ]
    return [beginning(table) for table in tables if table.rows]


def _runs(seen: "Status") -> list[tuple[object, ...]]:
    """Those that wait for a permit first."""
    return [
        (
            name,
            f"{run.alias} at {run.generation}",
            short(run.root),
            "" if run.head is None else f"{run.head.step:,}",
            f"open {short(run.permit)}" if run.closed is None else f"closed by {why_closed(run.closed)}",
        )
        for name, run in sorted(seen.runs.items(), key=lambda item: item[1].closed is None)
    ]


def _permits(seen: "Status") -> list[tuple[object, ...]]:
    return [
        (
            short(name),
            f"{'alias' if permit.kind == 'publication' else 'run'} {permit.subject}",
            short(permit.root),
            f"tombstones {permit.tombstone_watermark}, benchmarks {permit.benchmark_fence}",
            f"transition {permit.sequence}",
        )
        for name, permit in sorted(seen.permits.items(), key=lambda item: item[1].sequence)
    ]
