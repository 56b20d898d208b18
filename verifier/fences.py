"""What both logs name, and the members that they hit. Source: schemas/SPEC.md#fence-logs"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.sha import Bytes32
from shardrel.digest import raw_digest
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from verifier.digests import DigestSet
from verifier.leaves import codes
from verifier.logs import Logs
from verifier.parts import Listed
from verifier.shingles import ShingleScan, Wanted, wanted
from verifier.text_digests import TextDigests
from verifier.words import normal_blocks

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """What a set of log entries selects, ready to be matched."""

    sample_ids: Any
    sources: frozenset[str]
    source_versions: frozenset[tuple[str, str]]
    contents: DigestSet
    texts: DigestSet
    shingles: tuple[Wanted, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing can match."""
        return not (self.by_tuple or self.by_text)

    @property
    def by_tuple(self) -> bool:
        """Something may be named by what its tuple tells."""
        return bool(len(self.sample_ids) or self.sources or self.source_versions or len(self.contents))

    @property
    def beyond_ids(self) -> bool:
        """Something may be named by more than sample ids, which stand in order."""
        return bool(self.sources or self.source_versions or len(self.contents) or self.by_text)

    @property
    def by_text(self) -> bool:
        """Something may be named by its text."""
        return bool(len(self.texts) or self.shingles)


NOTHING = Selectors(
    sample_ids=pa.array([], pa.string()),
    sources=frozenset(),
    source_versions=frozenset(),
    contents=DigestSet.of(()),
    texts=DigestSet.of(()),
)


def tombstones(entries: Iterable[TombstoneEntry], upto: int, first: int = 1) -> Selectors:
    """Selectors of the entries with sequences ``first``..``upto``."""
    chosen = [entry for entry in entries if first <= entry.sequence <= upto]
    sourced = [entry for entry in chosen if entry.source_id is not None]
    return Selectors(
        sample_ids=pa.array(sorted({e.sample_id for e in chosen if e.sample_id is not None}), pa.string()),
        sources=frozenset(e.source_id for e in sourced if e.source_id is not None and e.source_version is None),
        source_versions=frozenset(
            (e.source_id or "", e.source_version) for e in sourced if e.source_version is not None
        ),
        contents=_digests(e.content_digest for e in chosen),
        texts=DigestSet.of(()),
    )


def benchmarks(entries: Iterable[BenchmarkEntry], upto: int, first: int = 1) -> Selectors:
    """Selectors of the entries with sequences ``first``..``upto``."""
    chosen = [entry for entry in entries if first <= entry.sequence <= upto]
    return Selectors(
        sample_ids=pa.array([], pa.string()),
        sources=frozenset(),
        source_versions=frozenset(),
        contents=_digests(e.content_digest for e in chosen),
        # A text that equals the one of an entry with shingles has all of these.
        texts=_digests(e.text_digest for e in chosen if e.shingles is None),
        shingles=wanted(e.shingles for e in chosen if e.shingles is not None),
    )


def either(one: Selectors, other: Selectors) -> Selectors:
    """What any of the two names; no more than one of them has shingles."""
    return Selectors(
        sample_ids=pa.concat_arrays([one.sample_ids, other.sample_ids]).unique().sort(),
        sources=one.sources | other.sources,
        source_versions=one.source_versions | other.source_versions,
        contents=one.contents | other.contents,
        texts=one.texts | other.texts,
        shingles=one.shingles or other.shingles,
    )


def in_range(selectors: Selectors, lower: str | None, last: str | None) -> bool:
    """Whether selectors may name a member whose sample id is above ``lower`` and not above ``last``; None is no bound."""
    if selectors.beyond_ids:
        return True
    ids = selectors.sample_ids
    at = 0 if lower is None else bisect_right(ids, lower, key=_text)
    return at < len(ids) and (last is None or _text(ids[at]) <= last)


def _digests(digests: Iterable[str | None]) -> DigestSet:
    return DigestSet.of(raw_digest(digest) for digest in digests if digest is not None)


def tuple_hits(selectors: Selectors, ids: Any, source: Any, version: Any, content: Bytes32) -> Mask:
    """Members that a selector names by sample id, by source (and version) or by content digest."""
    hits = np.zeros(len(ids), bool)
    if len(selectors.sample_ids):
        wanted = _within(selectors.sample_ids, ids)
        hits |= pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)
    if selectors.sources:
        hits |= _in(source, selectors.sources)
    if selectors.source_versions:
        hits |= _pairs(source, version, selectors.source_versions)
    if len(selectors.contents):
        hits |= selectors.contents.holds(content)
    return hits


def left_out(logs: Logs, tombstone_watermark: int, benchmark_fence: int) -> tuple[Selectors, Selectors]:
    """What a publisher leaves out of a release: what both logs name up to the root's own watermarks."""
    return tombstones(logs.tombstones, tombstone_watermark), benchmarks(logs.benchmarks, benchmark_fence)


def named(selectors: Iterable[Selectors], listed: Listed) -> Mask:
    """Listed tuples that any of the selectors names."""
    mask = np.zeros(len(listed), bool)
    for chosen in selectors:
        if not chosen.empty:
            mask |= tuple_hits(chosen, listed.ids, listed.context[0], listed.context[1], listed.content)
    return mask


def naming(entries: Iterable[TombstoneEntry | BenchmarkEntry], listed: Listed) -> set[int]:
    """Sequences of the entries that name any of the listed tuples by what a tuple tells."""
    ids = set(listed.ids.to_pylist())
    sources, versions = (column.to_pylist() for column in listed.context[:2])
    pairs = {*zip(sources, versions, strict=True), *((source, None) for source in sources)}
    contents = {bytes(row) for row in listed.content}
    return {entry.sequence for entry in entries if _names(entry, ids, pairs, contents)}


def _names(
    entry: TombstoneEntry | BenchmarkEntry,
    ids: set[str],
    pairs: set[tuple[str, str | None]],
    contents: set[bytes],
) -> bool:
    if entry.content_digest is not None:
        return raw_digest(entry.content_digest) in contents
    if isinstance(entry, BenchmarkEntry):
        return False
    if entry.source_id is not None:
        return (entry.source_id, entry.source_version) in pairs
    return entry.sample_id in ids


def text_hits(selectors: Selectors, columns: Iterable[Any]) -> Mask | None:
    """Members one of whose text columns a selector names by text; None without such selectors."""
    if not selectors.by_text:
        return None
    hits: Mask | None = None
    for column in columns:
        mask = _column_hits(selectors, column)
        hits = mask if hits is None else hits | mask
    return hits


def _column_hits(selectors: Selectors, column: Any) -> Mask:
    if pt.is_dictionary(column.type):
        # What many members share is looked at once.
        entries = _column_hits(selectors, column.dictionary)
        found = pa.array(entries).take(column.indices).fill_null(False)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
    hits = np.zeros(len(column), bool)
    scans = [ShingleScan(width) for width in selectors.shingles]
    whole = TextDigests(len(column)) if len(selectors.texts) else None
    for block in normal_blocks(column):
        for scan in scans:
            scan.add(block)
        if whole is not None:
            whole.add(block)
    for scan in scans:
        hits[scan.rows()] = True
    if whole is not None:
        digests, known = whole.finish()
        hits |= selectors.texts.holds(digests) & known
    return hits


def _in(values: Any, wanted: Iterable[str]) -> Mask:
    chosen = pa.array(sorted(wanted), pa.string())
    folded = pt.is_dictionary(values.type)
    found: Mask = pc.is_in(values.dictionary if folded else values, value_set=chosen).to_numpy(zero_copy_only=False)
    return np.asarray(found[codes(values)] if folded else found, np.bool_)


def _within(wanted: Any, ids: Any) -> Any:
    """Those of the ascending sample ids that are not beyond the least and the greatest of some ids."""
    if not len(ids):
        return wanted[:0]
    ends = pc.min_max(ids)
    first = bisect_left(wanted, ends["min"].as_py(), key=_text)
    return wanted[first : bisect_right(wanted, ends["max"].as_py(), key=_text)]


def _text(value: Any) -> str:
    return str(value.as_py())


def _pairs(source: Any, version: Any, wanted: frozenset[tuple[str, str]]) -> Mask:
    """Rows whose source and version are one of the pairs; each pair that occurs is looked at once."""
    hits = np.zeros(len(source), bool)
    near = np.flatnonzero(_in(source, {name for name, _ in wanted}))
    if not len(near):
        return hits
    sources, versions = (_folded(values.take(pa.array(near))) for values in (source, version))
    kinds, kind = np.unique(
        codes(sources).astype(np.int64) * len(versions.dictionary) + codes(versions), return_inverse=True
    )
    names, numbers = sources.dictionary.to_pylist(), versions.dictionary.to_pylist()
    pairs = (divmod(one, len(numbers)) for one in kinds.tolist())
    hits[near] = np.fromiter(((names[a], numbers[b]) in wanted for a, b in pairs), bool, len(kinds))[kind]
    return hits


def _folded(values: Any) -> Any:
    return values if pt.is_dictionary(values.type) else values.dictionary_encode()
