"""Fence logs: chains of chunks, newest first; read back, appended, made into selectors.

Source: schemas/SPEC.md#fence-logs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from shardrel.canonical import json
from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.gate.facts import LogFacts
from shardrel.records.descriptor import Descriptor
from shardrel.records.fence import BenchmarkChunk, BenchmarkEntry, Shingles, TombstoneChunk, TombstoneEntry
from shardrel.records.gate import Fence, FenceKind
from shardrel.store.objects import get_record, put_record, unversioned
from shardrel.store.port import Store

Entry = TombstoneEntry | BenchmarkEntry
Chunk = TombstoneChunk | BenchmarkChunk
_E = TypeVar("_E", TombstoneEntry, BenchmarkEntry)

# Far below the bound of a record, so that one big entry more still fits.
_CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceSelectors:
    """What must not be in a release, ready for look-ups.

    Attributes:
        sample_ids: Tombstoned samples.
        sources: Source ids of which every version is tombstoned.
        source_versions: Tombstoned (source id, source version) pairs.
        content_digests: Tombstoned or benchmark content, 32 raw bytes each.
        text_digests: Benchmark texts, 32 raw bytes each, of entries that have no shingles: these name an equal text too.
        shingles: Those of benchmark texts.
    """

    sample_ids: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    source_versions: frozenset[tuple[str, str]] = frozenset()
    content_digests: frozenset[bytes] = frozenset()
    text_digests: frozenset[bytes] = frozenset()
    shingles: frozenset[Shingles] = frozenset()

    def __or__(self, other: "FenceSelectors") -> "FenceSelectors":
        """What either names."""
        return FenceSelectors(
            sample_ids=self.sample_ids | other.sample_ids,
            sources=self.sources | other.sources,
            source_versions=self.source_versions | other.source_versions,
            content_digests=self.content_digests | other.content_digests,
            text_digests=self.text_digests | other.text_digests,
            shingles=self.shingles | other.shingles,
        )

    def __bool__(self) -> bool:
        """Whether anything is named at all."""
        by_tuple = (self.sample_ids, self.sources, self.source_versions, self.content_digests)
        return any((*by_tuple, self.text_digests, self.shingles))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedEntries:
    """Entries behind a watermark, in order, and the chunks in which an advance may end, by their last entry."""

    entries: tuple[Entry, ...]
    ends: Mapping[int, Descriptor]


def read_log(store: Store, fence: Fence, kind: FenceKind, first: int = 1) -> list[Entry]:
    """Entries first..watermark of a log, in order; chunks before ``first`` are not read.

    Raises:
        IntegrityError: ``gate.history-broken`` when the chain is not contiguous up to the watermark; and
            what reading an object raises.
    """
    newest_first: list[Chunk] = []
    for _, chunk in _chain(store, fence.log, kind, fence.watermark):
        newest_first.append(chunk)
        if chunk.entries[0].sequence <= first:
            break
    return [entry for chunk in reversed(newest_first) for entry in chunk.entries if entry.sequence >= first]


def append(store: Store, entries: Sequence[_E], previous: Descriptor | None) -> Descriptor:
    """Store entries as chunks behind ``previous``; nothing advances by it.

    Args:
        store: Where to put them.
        entries: Contiguous, at least one.
        previous: The newest chunk so far.

    Returns:
        The newest chunk now.

    Effects: one create a chunk; nothing names them until a fence advances.
    """
    newest = previous
    for group in _groups(entries):
        chunk: Chunk
        if isinstance(group[0], TombstoneEntry):
            chunk = TombstoneChunk(
                kind="tombstones", previous=newest, entries=cast("tuple[TombstoneEntry, ...]", tuple(group))
            )
        else:
            chunk = BenchmarkChunk(
                kind="benchmarks", previous=newest, entries=cast("tuple[BenchmarkEntry, ...]", tuple(group))
            )
        newest = unversioned(put_record(store, chunk))
    if newest is None:
        raise ValueError("a log is appended to with at least one entry")
    return newest


def read_facts(store: Store, fence: Fence, kind: FenceKind, log: Descriptor, last: int) -> LogFacts:
    """Read back what lies between the fence's newest chunk and ``log``.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    first = last + 1
    for _, chunk in _chain(store, log, kind, last):
        first = chunk.entries[0].sequence
        if chunk.previous == fence.log or first <= fence.watermark + 1:
            return LogFacts(previous=chunk.previous, log=log, first=first, last=last)
    return LogFacts(previous=None, log=log, first=first, last=last)


def selectors(entries: Iterable[Entry], upto: int | None = None) -> FenceSelectors:
    """Selectors of the entries whose sequence is at most ``upto``; None takes all."""
    taken = [entry for entry in entries if upto is None or entry.sequence <= upto]
    tombstones = [entry for entry in taken if isinstance(entry, TombstoneEntry)]
    benchmarks = [entry for entry in taken if isinstance(entry, BenchmarkEntry)]
    sources = [(entry.source_id, entry.source_version) for entry in tombstones if entry.source_id is not None]
    return FenceSelectors(
        sample_ids=frozenset(entry.sample_id for entry in tombstones if entry.sample_id is not None),
        sources=frozenset(source for source, version in sources if version is None),
        source_versions=frozenset((source, version) for source, version in sources if version is not None),
        content_digests=frozenset(
            raw_digest(entry.content_digest) for entry in taken if entry.content_digest is not None
        ),
        text_digests=frozenset(
            raw_digest(entry.text_digest)
            for entry in benchmarks
            if entry.text_digest is not None and entry.shingles is None
        ),
        shingles=frozenset(entry.shingles for entry in benchmarks if entry.shingles is not None),
    )


def read_staged(store: Store, fence: Fence, kind: FenceKind) -> StagedEntries:
    """What is staged behind a fence's watermark.

    Raises:
        IntegrityError: ``gate.history-broken`` when it does not follow the watermark.
    """
    entries: list[Entry] = []
    ends: dict[int, Descriptor] = {}
    if fence.staged is None:
        return StagedEntries(entries=(), ends=ends)
    for log, chunk in _chain(store, fence.staged.log, kind, fence.staged.watermark):
        entries[:0] = chunk.entries
        ends[chunk.entries[-1].sequence] = log
        if chunk.previous == fence.log and chunk.entries[0].sequence == fence.watermark + 1:
            return StagedEntries(entries=tuple(entries), ends=ends)
    raise _broken(kind, fence.watermark)


def read_chain(store: Store, log: Descriptor | None, kind: FenceKind, last: int) -> list[Descriptor]:
    """What names the chunks of a log, newest first.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    return [descriptor for descriptor, _ in _chain(store, log, kind, last)]


def _chain(store: Store, log: Descriptor | None, kind: FenceKind, last: int) -> Iterator[tuple[Descriptor, Chunk]]:
    """Chunks from the newest to the first with what names them, each checked to end where it must."""
    while log is not None:
        chunk: Chunk
        if kind == "tombstones":
            chunk = get_record(store, log, TombstoneChunk)
        else:
            chunk = get_record(store, log, BenchmarkChunk)
        sequences = [entry.sequence for entry in chunk.entries]
        if sequences != list(range(last - len(sequences) + 1, last + 1)):
            raise _broken(kind, last)
        yield log, chunk
        log, last = chunk.previous, sequences[0] - 1
    if last != 0:
        raise _broken(kind, last)


def _broken(kind: FenceKind, at: int) -> IntegrityError:
    return IntegrityError(ErrorCode.GATE_HISTORY, f"the log of {kind} is not contiguous", sequence=at)


def _groups(entries: Sequence[_E]) -> Iterator[list[_E]]:
    group: list[_E] = []
    size = 0
    for entry in entries:
        group.append(entry)
        size += len(json.encode(entry))
        if size >= _CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
