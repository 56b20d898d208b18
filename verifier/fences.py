"""What both logs name, and the members that they hit. Source: schemas/SPEC.md#fence-logs"""

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
from verifier.leaves import codes
from verifier.logs import Logs
from verifier.parts import Listed
from verifier.shingles import Wanted, rows_sharing, wanted
from verifier.words import normal_rows, text_digests

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """What a set of log entries selects, ready to be matched."""

    sample_ids: Any
    sources: frozenset[str]
    source_versions: frozenset[tuple[str, str]]
    contents: npt.NDArray[np.uint8]
    texts: frozenset[bytes] = frozenset()
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
    def by_text(self) -> bool:
        """Something may be named by its text."""
        return bool(self.texts or self.shingles)


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
        contents=_digest_rows(e.content_digest for e in chosen),
    )


def benchmarks(entries: Iterable[BenchmarkEntry], upto: int, first: int = 1) -> Selectors:
    """Selectors of the entries with sequences ``first``..``upto``."""
    chosen = [entry for entry in entries if first <= entry.sequence <= upto]
    return Selectors(
        sample_ids=pa.array([], pa.string()),
        sources=frozenset(),
        source_versions=frozenset(),
        contents=_digest_rows(e.content_digest for e in chosen),
        # A text that equals the one of an entry with shingles has all of these.
        texts=frozenset(raw_digest(e.text_digest) for e in chosen if e.text_digest is not None and e.shingles is None),
        shingles=wanted(e.shingles for e in chosen if e.shingles is not None),
    )


def _digest_rows(digests: Iterable[str | None]) -> npt.NDArray[np.uint8]:
    return _digest_array({raw_digest(digest) for digest in digests if digest is not None})


def _digest_array(digests: Iterable[bytes]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(b"".join(sorted(digests)), np.uint8).reshape(-1, 32)


def tuple_hits(selectors: Selectors, ids: Any, source: Any, version: Any, content: Bytes32) -> Mask:
    """Members that a selector names by sample id, by source (and version) or by content digest."""
    hits = np.zeros(len(ids), bool)
    if len(selectors.sample_ids):
        hits |= pc.is_in(ids, value_set=selectors.sample_ids).to_numpy(zero_copy_only=False)
    if selectors.sources:
        hits |= _in(source, selectors.sources)
    for source_id, source_version in sorted(selectors.source_versions):
        hits |= _in(source, {source_id}) & _in(version, {source_version})
    if len(selectors.contents):
        hits |= _content_in(content, selectors.contents)
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
    rows = normal_rows(column)
    for width in selectors.shingles:
        hits[rows_sharing(rows, width)] = True
    if selectors.texts:
        digests, known = text_digests(rows, len(column))
        hits |= _content_in(digests, _digest_array(selectors.texts)) & known
    return hits


def _in(values: Any, wanted: frozenset[str] | set[str]) -> Mask:
    chosen = pa.array(sorted(wanted), pa.string())
    folded = pt.is_dictionary(values.type)
    found: Mask = pc.is_in(values.dictionary if folded else values, value_set=chosen).to_numpy(zero_copy_only=False)
    return np.asarray(found[codes(values)] if folded else found, np.bool_)


def _content_in(content: Bytes32, wanted: npt.NDArray[np.uint8]) -> Mask:
    heads, own = (np.ascontiguousarray(rows[:, :8]).view(np.uint64).ravel() for rows in (wanted, content))
    near = np.isin(own, heads)
    exact = {row.tobytes() for row in wanted}
    for row in np.flatnonzero(near):
        near[row] = content[row].tobytes() in exact
    return near
