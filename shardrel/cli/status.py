"""``shardrel status``: the gate as it is now."""

from typing import TYPE_CHECKING, Any

from shardrel.cli.access import the_store
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings

if TYPE_CHECKING:
    from shardrel.gate.status import Status
    from shardrel.records.probe import KeptProbe


def status(settings: Settings) -> Result:
    """Show aliases, fences, runs, permits and candidates."""
    from shardrel.gate.status import read_status
    from shardrel.store.verdicts import kept

    store = the_store(settings)
    seen = read_status(store, settings.dataset)
    return Result(
        data={**_data(seen), "store": store.url, "probe": _verdict(kept(store, settings.dataset))},
        headline=f"{seen.dataset}: transition {seen.sequence}",
        facts=[
            ("store", store.url),
            ("gate", seen.gate_id),
            ("tombstones", _fence(seen.tombstone_watermark, seen.staged.get("tombstones"))),
            ("benchmarks", _fence(seen.benchmark_fence, seen.staged.get("benchmarks"))),
            ("open permits", len(seen.permits)),
        ],
        tables=_tables(seen),
    )


def _verdict(found: "KeptProbe | None") -> dict[str, Any] | None:
    import msgspec

    return None if found is None else msgspec.to_builtins(found)


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
    aliases = [(name, alias.generation, alias.root) for name, alias in seen.aliases.items()]
    candidates = [(state, root) for root, state in seen.candidates.items()]
    runs = [
        (name, run.alias, "open" if run.permit else "closed", run.head.step if run.head else "", run.root)
        for name, run in seen.runs.items()
    ]
    publications = [(name, pin.snapshot) for name, pin in seen.publications.items()]
    tables = [
        Table(title="Aliases", columns=["alias", "generation", "root"], rows=aliases),
        Table(title="Candidates", columns=["state", "root"], rows=candidates),
        Table(title="Open runs", columns=["run", "alias", "permit", "step", "root"], rows=runs),
        Table(title="Unfinished publications", columns=["publication", "snapshot"], rows=publications),
    ]
    return [table for table in tables if table.rows]
