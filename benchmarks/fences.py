"""Fences: re-checking a verified release after an advance, and ``affected`` over releases that share most parts.

The other side reads the same files and hashes them, and does nothing else: the snapshot's parts for tombstones and
``affected``, the shards for n-grams. ``growth`` says what ten times the members, a hundred times the entries or twenty
times the releases cost.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from benchmarks.baseline import read_and_hash
from benchmarks.measure import note, pairs
from benchmarks.release import DATASET, THREADS, Place, declare, place, publish_once, shard_files
from publisher.parts import part_bytes
from shardrel.canonical import json
from shardrel.clock import now_utc
from shardrel.gate import fence
from shardrel.gate.call import Call
from shardrel.gate.fence_files import text_selectors
from shardrel.gate.fences import Entry
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import PARQUET
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from shardrel.records.gate import FenceKind
from shardrel.records.release import Release
from shardrel.records.report import Report
from shardrel.records.snapshot import Part, Snapshot
from shardrel.store.layout import object_key
from shardrel.store.objects import get, get_by_digest, get_record, put, put_record, unversioned
from shardrel.trust.key_encryption import Unlocked
from verifier import fences
from verifier.affected import find_affected
from verifier.logs import fences_of, read_logs
from verifier.recheck import recheck_fences
from verifier.report import report_of
from verifier.verify import World, sign, subject_of

MEMBERS = {"half-a-million": 500_000, "5-million": 5_000_000}
SHARDS, WORDS, RELEASES = 16, 25, 20
FEW, MANY = 1_000, 100_000
QUESTIONS, QUESTION_WORDS = {"few": 250, "many": 25_000}, 52
_BATCH = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A release of texts that has passed at fences without entries."""

    at: Place
    folder: Path
    root: str
    members: int


def measure_fences(*, quick: bool) -> Iterator[tuple[str, object]]:
    """All figures of fences, under their keys in ``results.json``."""
    seconds: dict[str, dict[str, float]] = {}
    for name, members in MEMBERS.items():
        with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as folder:
            site = _site(Path(folder), members // 20 if quick else members)
            for what, summary in _measured(site, 3):
                yield f"fences.{what}.{name}", summary
                yield f"fences.{what}.{name}.ratio", summary["ratio"]
                seconds.setdefault(what, {})[name] = float(str(summary["ours_s"]))
                note(f"fences.{what}.{name}: {summary}")
    first, last = MEMBERS
    for what, of in seconds.items():
        yield f"fences.{what}.growth", round(of[last] / of[first], 2)
    for what, few, many in (
        ("tombstones.growth-with-entries", "tombstones-few", "tombstones-many"),
        ("shingles.growth-with-entries", "shingles-few", "shingles-many"),
        ("affected.growth-with-releases", "affected-1", "affected-20"),
    ):
        yield f"fences.{what}", round(seconds[many][last] / seconds[few][last], 2)


def _measured(site: Site, count: int) -> Iterator[tuple[str, dict[str, object]]]:
    store, release = site.at.store, json.decode(get_by_digest(site.at.store, site.root), Release)
    snapshot = get_record(store, release.objects.snapshot, Snapshot)
    parts = [site.folder / "store" / object_key(part.object.digest) for part in snapshot.parts]
    shards = shard_files(site.folder / "store", site.root, site.at)

    def measured(ours: Callable[[], object], files: list[Path]) -> dict[str, object]:
        return pairs(ours, lambda: read_and_hash(files, THREADS), count).summary()

    # Members that are there, so that reports fail and the next one looks at the same entries again.
    ids = [_id(number) for number in np.linspace(0, site.members - 1, min(MANY, site.members), dtype=int)]
    step = len(ids) // FEW
    yield "affected-1", measured(lambda: _ask(site, ids[::step]), parts)
    _advance(site, "tombstones", [_tombstone(number, id_) for number, id_ in enumerate(ids[::step], start=1)])
    yield "tombstones-few", measured(lambda: _recheck(site, FEW), parts)
    behind = len(ids[::step])
    rest = [id_ for place, id_ in enumerate(ids) if place % step]
    _advance(site, "tombstones", [_tombstone(number, id_) for number, id_ in enumerate(rest, start=behind + 1)])
    yield "tombstones-many", measured(lambda: _recheck(site, len(ids)), parts)
    yield "affected-20", measured(lambda: _ask(site, ids[::step]), [*parts, *_others(site, release, snapshot)])
    _pass(site)
    before = 0
    for name, questions in QUESTIONS.items():
        _advance(site, "benchmarks", list(_questions(before + 1, questions)))
        before += questions
        yield f"shingles-{name}", measured(lambda: _recheck(site, 0), shards)


def _site(folder: Path, members: int) -> Site:
    source = folder / "source.arrow"
    _write_texts(source, members)
    at = place(folder / "store", folder / "keys")
    site = Site(
        at=at,
        folder=folder,
        root=publish_once(at, declare(at, source, None), source, SHARDS).root,
        members=members,
    )
    source.unlink()
    _pass(site)
    return site


def _pass(site: Site) -> None:
    """Say that the release passed at the fences of now: verifying it has a benchmark of its own."""
    gate = read_gate(site.at.store, DATASET)
    target = fences_of(gate.body)
    subject = subject_of(site.root, gate, read_logs(site.at.store, target), target)
    times = (now_utc(), now_utc())
    report = report_of(subject, [], kind="full", shards=SHARDS, records=site.members, times=times)
    sign(site.at.store, report, gate, site.at.keys["verifier"])


def _recheck(site: Site, hits: int) -> Report:
    """Re-check the release without leaving a report that the next one would build on."""
    world = World(signer=site.at.keys["verifier"], now=now_utc, progress=lambda done, total: None, workers=THREADS)
    gate = read_gate(site.at.store, DATASET)
    report = recheck_fences(site.at.store, site.root, gate, world=world).report
    if report.counts.tombstone_hits != hits or (report.counts.benchmark_hits > 0) != (hits == 0):
        raise SystemExit(f"a re-check counted something else: {report.counts}")
    return report


def _ask(site: Site, ids: list[str]) -> None:
    gate = read_gate(site.at.store, DATASET)
    named = fences.tombstones([_tombstone(number, id_) for number, id_ in enumerate(ids, start=1)], len(ids))
    found = find_affected(
        site.at.store, gate, named, unlocked=Unlocked(), workers=THREADS, progress=lambda done, total: None
    )
    if len(found.roots) != len(gate.body.candidates) or found.unreadable:
        raise SystemExit("a root that has the members was not found")


def _advance(site: Site, kind: FenceKind, entries: list[Entry]) -> None:
    fence.advance(site.at.store, DATASET, kind, entries, _call(site))


def _call(site: Site) -> Call:
    return Call(signers=[site.at.keys["admin"]], recorded_at=now_utc(), operation_id=None, pending=None)


def _tombstone(sequence: int, sample_id: str) -> TombstoneEntry:
    return TombstoneEntry(
        sequence=sequence, sample_id=sample_id, source_id=None, source_version=None, content_digest=None, reason=None
    )


def _questions(first: int, count: int) -> Iterator[BenchmarkEntry]:
    """Texts that nobody has, and a first one that some record has, so that every report fails."""
    rng = np.random.default_rng(first)
    words = _vocabulary()
    for number in range(count):
        picks = rng.integers(0, len(words), QUESTION_WORDS)
        text = _text_of_first() if number == 0 else " ".join(words[pick] for pick in picks)
        digest, grams = text_selectors(text)
        yield BenchmarkEntry(
            sequence=first + number, benchmark="quiz", content_digest=None, text_digest=digest, shingles=grams
        )


def _others(site: Site, release: Release, snapshot: Snapshot) -> list[Path]:
    """Stage releases whose last part alone is another; the files of these parts."""
    store, last = site.at.store, snapshot.parts[-1]
    table = pq.read_table(pa.BufferReader(get(store, last.object)))
    files = []
    for number in range(1, RELEASES):
        cut = table.slice(0, table.num_rows - number)
        object_, _ = put(store, memoryview(part_bytes(cut)), PARQUET)
        part = Part(
            object=unversioned(object_), records=cut.num_rows, last_sample_id=cut.column("sample_id")[-1].as_py()
        )
        records = snapshot.records - number
        declared = put_record(store, replace(snapshot, parts=(*snapshot.parts[:-1], part), records=records))
        objects = replace(release.objects, snapshot=declared)
        manifest = replace(release, objects=objects, dataset_snapshot=declared.digest)
        root = put_record(store, manifest).digest
        name = f"bench-{number}"
        begin_publication(store, DATASET, name, declared.digest, _call(site))
        end_publication(store, DATASET, name, root, _call(site))
        files.append(site.folder / "store" / object_key(object_.digest))
    return files


def _write_texts(path: Path, members: int) -> None:
    words = pa.array(_vocabulary())
    rng = np.random.default_rng(11)
    writer = None
    for first in range(0, members, _BATCH):
        count = min(_BATCH, members - first)
        picks = (np.exp(rng.random(count * WORDS) * math.log(len(words))) - 1).astype(np.int64)
        lists = pa.ListArray.from_arrays(
            pa.array(np.arange(0, (count + 1) * WORDS, WORDS, dtype=np.int32)), words.take(pa.array(picks))
        )
        ids = pa.array([_id(number) for number in range(first, first + count)])
        texts = pa.compute.binary_join(lists, " ")
        if first == 0:
            texts = pa.concat_arrays([pa.array([_text_of_first()]), texts[1:]])
        table = pa.table({"id": ids, "text": texts})
        writer = writer or pa.ipc.new_file(str(path), table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _vocabulary() -> list[str]:
    rng = np.random.default_rng(13)
    return ["".join(map(chr, 97 + rng.integers(0, 26, int(rng.integers(2, 10))))) for _ in range(20_000)]


def _text_of_first() -> str:
    return " ".join(_vocabulary()[7 : 7 + WORDS])


def _id(number: int) -> str:
    return f"sample-{number:010d}"
