"""Fence logs as the gate names them, read newest chunk first. Source: schemas/SPEC.md#fence-logs"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.descriptor import Descriptor
from shardrel.records.fence import BenchmarkChunk, BenchmarkEntry, TombstoneChunk, TombstoneEntry
from shardrel.records.gate import Fence, GateBody
from shardrel.store.objects import get_record
from shardrel.store.port import Store

Chunk = TypeVar("Chunk", TombstoneChunk, BenchmarkChunk)


Ends = Mapping[int, str]
"""Digest of the chunk that ends with an entry, by the entry's sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Up to where the logs are looked at: the gate's fences, or what is staged behind them."""

    tombstones: Fence
    benchmarks: Fence

    @property
    def watermarks(self) -> tuple[int, int]:
        """Of tombstones and benchmarks."""
        return self.tombstones.watermark, self.benchmarks.watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Entries of both logs up to the target, and where their chunks end."""

    tombstones: tuple[TombstoneEntry, ...]
    benchmarks: tuple[BenchmarkEntry, ...]
    ends: tuple[Ends, Ends]


def fences_of(body: GateBody) -> Target:
    """The gate's own fences."""
    return Target(tombstones=body.tombstones, benchmarks=body.benchmarks)


def staged_targets(body: GateBody) -> list[Target]:
    """For each log with staged entries: up to them, and up to the gate's fence of the other one.

    Each log by itself, so that the two may advance one after the other in any order.
    """
    now, targets = fences_of(body), []
    if body.tombstones.staged is not None:
        staged = body.tombstones.staged
        targets.append(replace(now, tombstones=Fence(watermark=staged.watermark, log=staged.log)))
    if body.benchmarks.staged is not None:
        staged = body.benchmarks.staged
        targets.append(replace(now, benchmarks=Fence(watermark=staged.watermark, log=staged.log)))
    return targets


def read_logs(store: Store, target: Target) -> Logs:
    """Entries of both logs from their first up to the target.

    Raises:
        IntegrityError: ``gate.history-broken`` when a log does not hold what the gate says.
    """
    tombstones, tombstone_ends = _chunks(store, target.tombstones, TombstoneChunk)
    benchmarks, benchmark_ends = _chunks(store, target.benchmarks, BenchmarkChunk)
    return Logs(
        tombstones=tuple(entry for chunk in tombstones for entry in chunk.entries),
        benchmarks=tuple(entry for chunk in benchmarks for entry in chunk.entries),
        ends=(tombstone_ends, benchmark_ends),
    )


def _chunks(store: Store, fence: Fence, kind: type[Chunk]) -> tuple[list[Chunk], dict[int, str]]:
    """Chunks oldest first that reach from the watermark down to the first entry, without a gap."""
    chunks: list[Chunk] = []
    ends: dict[int, str] = {}
    expected, descriptor = fence.watermark, fence.log
    while expected > 0 and descriptor is not None:
        chunk = _chunk(store, descriptor, kind, expected)
        chunks.append(chunk)
        ends[expected] = descriptor.digest
        expected, descriptor = chunk.entries[0].sequence - 1, chunk.previous
    if expected:
        raise _broken(expected)
    return chunks[::-1], ends


def _chunk(store: Store, descriptor: Descriptor, kind: type[Chunk], last: int) -> Chunk:
    chunk = get_record(store, descriptor, kind)
    sequences = [entry.sequence for entry in chunk.entries]
    if sequences != list(range(last - len(sequences) + 1, last + 1)):
        raise _broken(last)
    return chunk


def _broken(sequence: int) -> IntegrityError:
    return IntegrityError(ErrorCode.GATE_HISTORY, "a fence log does not hold what the gate says", sequence=sequence)
