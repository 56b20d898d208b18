"""Fence logs as the gate names them, read newest chunk first. Source: schemas/SPEC.md#fence-logs"""

from dataclasses import dataclass
from typing import TypeVar

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.descriptor import Descriptor
from shardrel.records.fence import BenchmarkChunk, BenchmarkEntry, TombstoneChunk, TombstoneEntry
from shardrel.records.gate import Fence, GateBody
from shardrel.store.objects import get_record
from shardrel.store.port import Store

Chunk = TypeVar("Chunk", TombstoneChunk, BenchmarkChunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Entries of both logs up to the gate's watermarks."""

    tombstones: tuple[TombstoneEntry, ...]
    benchmarks: tuple[BenchmarkEntry, ...]


def read_logs(store: Store, body: GateBody, *, after: tuple[int, int] = (0, 0)) -> Logs:
    """Entries after the given watermarks (of tombstones, of benchmarks) up to the gate's own.

    Raises:
        IntegrityError: ``gate.history-broken`` when a log does not hold what the gate says.
    """
    tombstones = _chunks(store, body.tombstones, TombstoneChunk, after[0])
    benchmarks = _chunks(store, body.benchmarks, BenchmarkChunk, after[1])
    return Logs(
        tombstones=tuple(entry for chunk in tombstones for entry in chunk.entries if entry.sequence > after[0]),
        benchmarks=tuple(entry for chunk in benchmarks for entry in chunk.entries if entry.sequence > after[1]),
    )


def _chunks(store: Store, fence: Fence, kind: type[Chunk], after: int) -> list[Chunk]:
    """Chunks oldest first that reach from the watermark down to ``after``, without a gap."""
    chunks: list[Chunk] = []
    expected, descriptor = fence.watermark, fence.log
    while expected > after:
        chunk = _chunk(store, descriptor, kind, expected)
        chunks.append(chunk)
        expected, descriptor = chunk.entries[0].sequence - 1, chunk.previous
    return chunks[::-1]


def _chunk(store: Store, descriptor: Descriptor | None, kind: type[Chunk], last: int) -> Chunk:
    if descriptor is None:
        raise _broken(last)
    chunk = get_record(store, descriptor, kind)
    sequences = [entry.sequence for entry in chunk.entries]
    if sequences != list(range(last - len(sequences) + 1, last + 1)):
        raise _broken(last)
    return chunk


def _broken(sequence: int) -> IntegrityError:
    return IntegrityError(ErrorCode.GATE_HISTORY, "a fence log does not hold what the gate says", sequence=sequence)
