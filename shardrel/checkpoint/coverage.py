"""Do boxes tile a shape exactly? Source: schemas/SPEC.md#checkpoints.

The number of boxes over a point, as a function of the point, is determined by its mixed difference:
each box adds +1 or −1 at its 2^d corners. So boxes tile the shape exactly when their signed corners
sum to those of the shape. At the lexicographically first corner where the sums differ, the surplus
is the surplus of coverage there: negative is a gap, positive an overlap. O(n log n) for n boxes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Box:
    """First element and number of elements per dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tiled:
    """Every element of the shape is in exactly one box."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The element ``at`` is in no box."""

    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The element ``at`` is in more than one box."""

    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutOfBounds:
    """Box number ``box`` is not inside of the shape, is empty, or has another number of dimensions."""

    box: int


Coverage = Tiled | Gap | Overlap | OutOfBounds


def coverage(shape: Sequence[int], boxes: Sequence[Box]) -> Coverage:
    """Check that boxes tile a shape exactly.

    A shape of no dimension has one element, and its box is ``Box((), ())``; a shape without elements has no box.
    """
    for index, box in enumerate(boxes):
        if not _inside(shape, box):
            return OutOfBounds(index)
    if 0 in shape:
        return Tiled()
    return _surplus(tuple(shape), boxes)


def _inside(shape: Sequence[int], box: Box) -> bool:
    if not len(box.offsets) == len(box.sizes) == len(shape):
        return False
    return all(
        offset >= 0 and size >= 1 and offset + size <= extent
        for offset, size, extent in zip(box.offsets, box.sizes, shape, strict=True)
    )


def _alike(boxes: int, at: tuple[int, ...]) -> Coverage:
    """Boxes that all are the whole shape: one of them tiles it."""
    if boxes == 1:
        return Tiled()
    return Gap(at) if boxes == 0 else Overlap(at)


def _surplus(shape: tuple[int, ...], boxes: Sequence[Box]) -> Coverage:
    low = np.array([*(box.offsets for box in boxes), (0,) * len(shape)], np.int64).reshape(len(boxes) + 1, len(shape))
    high = low + np.array([*(box.sizes for box in boxes), shape], np.int64).reshape(len(boxes) + 1, len(shape))
    weight = np.ones(len(low), np.int64)
    weight[-1] = -1
    keep = _varying(low, high)
    if not keep.any():
        return _alike(len(boxes), (0,) * len(shape))
    points, signs = _corners(low[:, keep], high[:, keep], weight)
    first = _first_difference(points, signs)
    if first is None:
        return Tiled()
    at = np.zeros(len(shape), np.int64)
    at[keep] = first[0]
    place = tuple(int(value) for value in at)
    return Overlap(place) if first[1] > 0 else Gap(place)


def _varying(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Dimensions that some box doesn't span; the others would only double the corners."""
    return np.asarray((low != low[-1]).any(axis=0) | (high != high[-1]).any(axis=0))


def _corners(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], weight: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    dimensions = low.shape[1]
    points, signs = [], []
    for corner in range(2**dimensions):
        upper = np.array([corner >> axis & 1 for axis in range(dimensions)], bool)
        points.append(np.where(upper, high, low))
        signs.append(weight * (-1) ** int(upper.sum()))
    return np.concatenate(points), np.concatenate(signs)


def _first_difference(
    points: npt.NDArray[np.int64], signs: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], int] | None:
    order = np.lexsort(points.T[::-1])
    points, signs = points[order], signs[order]
    starts = np.flatnonzero(np.concatenate([[True], (points[1:] != points[:-1]).any(axis=1)]))
    sums = np.add.reduceat(signs, starts)
    different = np.flatnonzero(sums)
    if len(different) == 0:
        return None
    return points[starts[different[0]]], int(sums[different[0]])
