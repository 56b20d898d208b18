"""The functions of ``lanes_ir`` and ``weave_ir`` made for this machine, where it has AVX-512 and lets programs make code.

Everywhere else there are none, and ``sha`` takes its other way to the same digests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from shardrel.canonical import lanes_ir, weave_ir
from shardrel.canonical.jit import engine, function

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_NEEDED = ("avx512f", "avx512bw", "avx512vl")
# What is woven at a time stays in the cache next to the processor.
_ROOM = 256 * 1024
# Shares of useful work: below the first, sorting rows pays; below the second, lanes are slower than one row at a time.
_SOME, _LEAST = 0.75, 0.4
MAX_HEAD = weave_ir.STORED
_LONGEST = _ROOM // lanes_ir.GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Bytes of each of n rows.

    Attributes:
        data: Contiguous bytes.
        offsets: Shape (n + 1,), contiguous: row i is ``data[offsets[i] : offsets[i + 1]]``. None where all rows have
            ``width`` bytes.
        stride: From one row to the next in ``data``; 0 for the same bytes in every row.
        width: Bytes of a row.
        present: Shape (n,), contiguous: rows that have it; None means all.
        head: Up to ``MAX_HEAD`` bytes that precede it in each row that has it.
    """

    data: Bytes
    offsets: npt.NDArray[np.int32] | None = None
    stride: int = 0
    width: int = 0
    present: npt.NDArray[np.bool_] | None = None
    head: bytes = b""

    def sizes(self) -> Any:
        """Bytes of each row: shape (n,), int64, or one number for all."""
        sizes = len(self.head) + (self.width if self.offsets is None else np.diff(self.offsets).astype(np.int64))
        return sizes if self.present is None else np.where(self.present, sizes, 0)

    def inside(self, rows: int) -> bool:
        """Whether the arrays are what they should be, and nothing outside of them would be read."""
        arrays = ((self.data, np.uint8), (self.offsets, np.int32), (self.present, np.bool_))
        if any(one is not None and (one.dtype != kind or not one.flags.c_contiguous) for one, kind in arrays):
            return False
        if len(self.head) > MAX_HEAD or (self.present is not None and len(self.present) != rows):
            return False
        if self.offsets is None:
            return self.stride * max(rows - 1, 0) + self.width <= len(self.data)
        rising = len(self.offsets) == rows + 1 and bool((self.offsets[1:] >= self.offsets[:-1]).all())
        return rising and int(self.offsets[0]) >= 0 and int(self.offsets[-1]) <= len(self.data)

    def fields(self, head: Bytes) -> tuple[int, ...]:
        """The column as ``weave_ir`` takes it, whose head is put into ``head``, shape (MAX_HEAD,)."""
        head[: len(self.head)] = np.frombuffer(self.head, np.uint8)
        arrays = (self.data, self.offsets, self.present)
        data, offsets, present = (0 if one is None else one.ctypes.data for one in arrays)
        return data, offsets, self.stride, self.width, present, head.ctypes.data, len(self.head)


class Lanes:
    """Hashes rows, a group at once; lets other threads run meanwhile.

    Args:
        made: Keeps the code of both functions.
    """

    def __init__(self, made: Any) -> None:
        self._made = made
        self._rows = function(made, lanes_ir.FUNCTION, "pppp#p")
        self._columns = function(made, weave_ir.FUNCTION, "p###p#pppp#p")

    def of_rows(self, data: Bytes, starts: Places, ends: Places, order: Places) -> Bytes:
        """Digest of each ``data[starts[i] : ends[i]]``.

        Args:
            data: Contiguous bytes.
            starts, ends: n places within ``data``, contiguous.
            order: The n rows as they are to be taken, those of one length beside each other.

        Returns:
            Shape (n, 32), uint8, in the order of the rows.
        """
        out = np.empty((len(starts), 32), np.uint8)
        if len(out):
            self._rows(*(one.ctypes.data for one in (data, starts, ends, order)), len(out), out.ctypes.data)
        return out

    def of_columns(self, columns: Sequence[Column], rows: int, shortest: int, longest: int) -> Bytes:
        """Digest of each row: its bytes of each column, one after another.

        Args:
            columns: At least one; inside of their data.
            rows: At least one.
            shortest: Bytes of the shortest row.
            longest: Bytes of the longest row, at most ``_LONGEST``.

        Returns:
            Shape (n, 32), uint8.
        """
        slot = longest + weave_ir.STORED
        step = _step(rows, longest)
        room, places = np.empty(step * slot, np.uint8), np.empty((2, step), np.int64)
        order, counts = np.arange(step), np.empty(_blocks(longest) + 1, np.int64)
        kinds = len(counts) if _blocks(shortest) < _blocks(longest) else 0
        heads = np.zeros((len(columns), MAX_HEAD), np.uint8)
        fields = np.array([column.fields(head) for column, head in zip(columns, heads, strict=True)], np.uint64)
        out = np.empty((rows, 32), np.uint8)
        at = [one.ctypes.data for one in (*places, order, counts)]
        self._columns(fields.ctypes.data, len(fields), rows, step, room.ctypes.data, slot, *at, kinds, out.ctypes.data)
        return out


def rows_of(lanes: Lanes, data: Bytes, borders: Places) -> Bytes | None:
    """Digests of rows that follow each other, shape (n, 32); None where they are better hashed one by one.

    Args:
        lanes: Hash them.
        data: Contiguous bytes.
        borders: n + 1 places within ``data`` that do not fall, contiguous.
    """
    starts, ends = borders[:-1], borders[1:]
    lengths = ends - starts
    if _even(lengths, _SOME):
        return lanes.of_rows(data, starts, ends, np.arange(len(lengths)))
    order = np.argsort(lengths)
    return lanes.of_rows(data, starts, ends, order) if _even(lengths[order], _LEAST) else None


def _step(rows: int, longest: int) -> int:
    """Rows that are woven at a time."""
    groups = _ROOM // (longest + weave_ir.STORED) // lanes_ir.GROUP
    return max(1, min(groups, -(-rows // lanes_ir.GROUP))) * lanes_ir.GROUP


def _by_room(lengths: Places, longest: int) -> Places:
    """Lengths in the order in which rows are hashed when they are woven: sorted within what is woven at a time."""
    step = _step(len(lengths), longest)
    padded = np.zeros(-(-len(lengths) // step) * step, np.int64)
    padded[: len(lengths)] = lengths
    return np.sort(padded.reshape(-1, step), axis=1).reshape(-1)


def _blocks(lengths: Any) -> Any:
    """Blocks of messages of so many bytes."""
    return (lengths + lanes_ir.PADDING) >> 6


def _even(lengths: Places, share: float) -> bool:
    """Whether at least this share of the blocks that the lanes go through are blocks of a row.

    The rows of a group are hashed in the time of the longest of them.
    """
    if not len(lengths):
        return True
    blocks = _blocks(lengths)
    total, longest = int(blocks.sum()), int(blocks.max())
    if total >= share * longest * len(blocks):  # even if each group had a longest one
        return True
    firsts = np.arange(0, len(blocks), lanes_ir.GROUP)
    sizes = np.diff(firsts, append=len(blocks))
    return total >= share * int((np.maximum.reduceat(blocks, firsts) * sizes).sum())


def woven(lanes: Lanes, columns: Sequence[Column], rows: int) -> tuple[Bytes, npt.NDArray[np.int64]] | None:
    """Digests, shape (n, 32), and lengths, shape (n,), of rows; None where they are better put together first."""
    if not rows or not columns or not all(column.inside(rows) for column in columns):
        return None
    sizes = [column.sizes() for column in columns]
    lengths = np.full(rows, sum(size for size in sizes if isinstance(size, int)), np.int64)
    for size in sizes:
        if not isinstance(size, int):
            lengths += size
    shortest, longest = int(lengths.min()), int(lengths.max())
    if longest > _LONGEST or not (_even(lengths, _LEAST) or _even(_by_room(lengths, longest), _LEAST)):
        return None
    return lanes.of_columns(columns, rows, shortest, longest), lengths


def compiled() -> Lanes | None:
    """Make the functions: a fifth of a second of work. ``None`` where they cannot be had, or compute something else."""
    made = engine(_text)
    lanes = None if made is None else Lanes(made)
    return lanes if lanes and _right(lanes) else None


def _text(features: Mapping[str, bool]) -> str | None:
    if not all(features.get(name) for name in _NEEDED):
        return None
    return lanes_ir.function() + weave_ir.functions()


def _right(lanes: Lanes) -> bool:
    """Compare with hashlib: every length up to three blocks, beside its like and beside a longer or shorter one."""
    most = 3 * 64
    borders = np.zeros(2 * most + 3, np.int64)
    np.cumsum([*range(most + 1), *range(most, -1, -1)], out=borders[1:])
    rows = len(borders) - 1
    data = (np.arange(borders[-1], dtype=np.int64) * 197 >> 3).astype(np.uint8)
    whole = [data[start:stop].tobytes() for start, stop in pairwise(borders.tolist())]
    columns, joined = _of_every_kind(data, borders)
    found = woven(lanes, columns, rows)
    return found is not None and all(
        digests.tobytes() == b"".join(sha256(value).digest() for value in values)
        for digests, values in (
            (lanes.of_rows(data, borders[:-1], borders[1:], np.arange(rows)), whole),
            (found[0], joined),
        )
    )


def _of_every_kind(data: Bytes, borders: Places) -> tuple[list[Column], list[bytes]]:
    """A column of each kind that has a loop of its own, and the rows that they come to."""
    rows = len(borders) - 1
    some, every = np.arange(rows) % 3 != 0, np.ones(rows, bool)
    columns, joined = [], [b""] * rows
    for width, head, there in product((*weave_ir.WIDTHS, 33, None), (b"", b"head", b"longer head"), (every, some)):
        present = None if there is every else there
        if width is None:
            columns.append(Column(data=data, offsets=borders.astype(np.int32), present=present, head=head))
            spans = list(pairwise(borders.tolist()))
        else:
            columns.append(Column(data=data, stride=1, width=width, present=present, head=head))
            spans = [(i, i + width) for i in range(rows)]
        for i in np.flatnonzero(there):
            joined[i] += head + data[slice(*spans[i])].tobytes()
    return columns, joined
