"""``shardrel report``: all that is known of one release, for people; as text, as a page, or for scripts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import Root
from shardrel.cli.changes import in_short
from shardrel.cli.files import write_file
from shardrel.cli.output import Result, Table
from shardrel.cli.page import page
from shardrel.cli.roots import known_root
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.cli.words import counted, history_table, life_data, lives_table, short

if TYPE_CHECKING:
    from shardrel.gate.about import About, Said
    from shardrel.records.release import Release
    from shardrel.records.report import LogRange, Report
    from shardrel.records.schema import RecordSchema


def report(
    settings: Settings,
    root: Root,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one page that needs nothing else.")
    ] = None,
) -> Result:
    """Tell all that is known of a release, but none of its content; --html makes a page."""
    from shardrel.canonical import json
    from shardrel.gate.about import about_root
    from shardrel.records.release import Release
    from shardrel.records.schema import RecordSchema
    from shardrel.store.objects import get_by_digest, get_record

    store = the_store(settings)
    view = the_gate(settings, store)
    digest = known_root(store, view, root)
    about = about_root(store, view, digest)
    release = json.decode(get_by_digest(store, digest), Release)
    schema = get_record(store, release.objects.record_schema, RecordSchema)
    fences = (view.body.tombstones.watermark, view.body.benchmarks.watermark)
    result = _result(about, release, schema, fences, html)
    if html is not None:
        write_file(html, page(result, f"Release {short(digest)} of {release.dataset}").encode())
    return result


def _result(
    about: "About", release: "Release", schema: "RecordSchema", fences: tuple[int, int], html: Path | None
) -> Result:
    import msgspec

    totals = release.totals
    return Result(
        data={
            "root": about.root,
            "dataset": release.dataset,
            "state": about.state,
            "reason": about.candidate.reason,
            "admissible": _refusal(about) is None,
            "refusal": _refusal(about),
            "aliases": about.aliases,
            "runs": list(about.runs),
            "totals": msgspec.to_builtins(totals),
            "snapshot": release.dataset_snapshot,
            "recordSchema": release.record_schema,
            "attestations": [_said_data(one) for one in about.said],
            "permits": [life_data(life) for life in about.permits],
            "transitions": [entry.sequence for entry in about.history],
            "html": None if html is None else str(html),
        },
        headline=f"{counted(totals.records, 'record')} in {counted(totals.shards, 'shard')}, {about.state}",
        sentences=[_today(about)],
        facts=_facts(about, release, fences),
        tables=[table for table in _tables(about, release, schema) if table.rows],
    )


def _refusal(about: "About") -> dict[str, str] | None:
    from shardrel.gate.facts import Refuse

    verdict = about.verdict
    return {"code": verdict.code.value, "message": verdict.message} if isinstance(verdict, Refuse) else None


def _today(about: "About") -> str:
    refusal = _refusal(about)
    when = f"As of transition {about.sequence} ({about.recorded_at})"
    if refusal is None:
        return f"{when} it is verified at the gate's fences and approved: an alias may point to it."
    return f"{when} no alias may be pointed to it: {refusal['message']} ({refusal['code']})."


def _facts(about: "About", release: "Release", fences: tuple[int, int]) -> list[tuple[str, object]]:
    totals, codec = release.totals, release.compression
    level = "" if codec.level is None else f":{codec.level}"
    aliases = ", ".join(f"{name} at generation {generation}" for name, generation in about.aliases.items())
    return [
        ("root", about.root),
        ("dataset", release.dataset),
        ("snapshot", release.dataset_snapshot),
        ("record schema", release.record_schema),
        ("compared with", _compared(about, release)),
        ("ordered root", release.ordered_member_tuple_root),
        ("aliases", aliases or "none"),
        ("open runs", ", ".join(about.runs) or "none"),
        ("tokens", f"{totals.tokens:,}"),
        ("bytes", f"{totals.stored_bytes:,} stored, {totals.logical_bytes:,} logical"),
        ("tombstones", f"taken out up to {release.tombstone_watermark}; the gate stands at {fences[0]}"),
        ("benchmarks", f"taken out up to {release.benchmark_fence}; the gate stands at {fences[1]}"),
        ("encryption", "none" if release.encryption is None else f"key version {release.encryption.key_version}"),
        ("written by", f"{release.serializer.library} {release.serializer.library_version}, {codec.codec}{level}"),
        *([("revoked for", about.candidate.reason)] if about.candidate.reason else []),
    ]


def _compared(about: "About", release: "Release") -> str:
    from shardrel.records.evolution import SchemaEvolution

    if release.schema_evolution is None:
        return "no previous root"
    roots = [one.about.previous for one in about.said if isinstance(one.about, SchemaEvolution)]
    return f"root {short(roots[0]) if roots else '?'}, report {short(release.schema_evolution.digest)}"


def _tables(about: "About", release: "Release", schema: "RecordSchema") -> list[Table]:
    from shardrel.records.schema_types import in_words

    splits = [(name, f"{one.records:,}", f"{one.tokens:,}") for name, one in sorted(release.totals.splits.items())]
    columns = [(one.name, in_words(one), "" if one.nullable else "never null") for one in schema.fields]
    said = [(one.when or "", one.kind, ", ".join(one.by), _says(one)) for one in about.said]
    return [
        Table(title="Members by split", columns=["split", "records", "tokens"], rows=splits),
        Table(title="Columns", columns=["column", "type", ""], rows=columns),
        Table(title="Who said what", columns=["when", "what", "by", ""], rows=said),
        lives_table(about.permits),
        history_table(about.history, "History"),
    ]


def _says(said: "Said") -> str:
    from shardrel.records.evolution import SchemaEvolution
    from shardrel.records.report import Report

    match said.about:
        case Report() as seen:
            return _verdict(seen)
        case SchemaEvolution(previous=previous, changes=changes):
            return f"{in_short(changes)} since {short(previous)}"
        case {"buildDefinition": {"externalParameters": {"snapshot": str() as snapshot}}}:
            return f"made from snapshot {short(snapshot)}"
        case _:
            return "approves it" if said.kind == "approval" else ""


def _verdict(seen: "Report") -> str:
    looked = f"tombstones {_span(seen.tombstones)}, benchmarks {_span(seen.benchmarks)}"
    codes = ", ".join(sorted({finding.code for finding in seen.findings}))
    return f"{seen.verdict}, {seen.kind}; {looked}{'; ' + codes if codes else ''}"


def _span(seen: "LogRange") -> str:
    return "none" if not seen.last else f"{seen.first}–{seen.last}"


def _said_data(said: "Said") -> dict[str, Any]:
    from shardrel.records.report import Report

    verdict = said.about.verdict if isinstance(said.about, Report) else None
    return {
        "kind": said.kind,
        "by": list(said.by),
        "when": said.when,
        "verdict": verdict,
        "says": _says(said),
        "envelope": said.envelope,
    }
