"""What the gate's logs name up to some watermarks, for the verbs that read sources."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.fences import FenceSelectors
    from shardrel.gate.view import GateView
    from shardrel.records.gate import Fence, FenceKind
    from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Fences:
    """Watermarks, and what both logs name up to them."""

    tombstone_watermark: int
    benchmark_fence: int
    tombstones: "FenceSelectors"
    benchmarks: "FenceSelectors"


def selectors_upto(store: "Store", view: "GateView", tombstones: int | None, benchmarks: int | None) -> Fences:
    """Read both logs.

    Args:
        store: Where they are.
        view: The gate.
        tombstones: Watermark; None takes the gate's.
        benchmarks: The same of the benchmark log.

    Raises:
        InvalidInputError: ``input.invalid`` for a watermark that the gate has not reached.
    """
    body = view.body
    upto_tombstones = _within(body.tombstones, tombstones, "tombstone watermark")
    upto_benchmarks = _within(body.benchmarks, benchmarks, "benchmark fence")
    return Fences(
        tombstone_watermark=upto_tombstones,
        benchmark_fence=upto_benchmarks,
        tombstones=_selectors(store, body.tombstones, "tombstones", upto_tombstones),
        benchmarks=_selectors(store, body.benchmarks, "benchmarks", upto_benchmarks),
    )


def _within(fence: "Fence", wanted: int | None, what: str) -> int:
    if wanted is not None and wanted > fence.watermark:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"the gate's {what} stands at {fence.watermark}", watermark=fence.watermark
        )
    return fence.watermark if wanted is None else wanted


def _selectors(store: "Store", fence: "Fence", kind: "FenceKind", upto: int) -> "FenceSelectors":
    from shardrel.gate.fences import read_log, selectors

    return selectors(read_log(store, fence, kind), upto)
