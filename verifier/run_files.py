"""Files of members that are read again by range, straight into where they are wanted.

Mapped files would count as memory of this process, and their values would be copied all the same. A file lives as long as
the verification that wrote it, so its layout is nobody else's: what of a range has one width, its sample ids, its context.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.canonical.sha import Bytes32

Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int32]
# The dictionaries that are kept beside a file have fewer entries.
_CODE = np.int16


@dataclass(frozen=True, slots=True)
class Room:
    """Where members of a range are put.

    Attributes:
        id_ends: Where each sample id ends in the ids of its run.
        ids: Bytes of the sample ids.
    """

    content: Bytes32
    leaves: Bytes32
    rows: npt.NDArray[np.uint32]
    id_ends: Ends
    ids: Bytes

    @staticmethod
    def for_members(count: int, id_bytes: int) -> "Room":
        """Space for so many."""
        content, leaves = np.empty((count, 32), np.uint8), np.empty((count, 32), np.uint8)
        return Room(
            content, leaves, np.empty(count, np.uint32), np.empty(count, np.int32), np.empty(id_bytes, np.uint8)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def between(self, first: int, end: int, low: int, high: int) -> "Room":
        """The part for the members at [first, end), whose sample ids lie at [low, high)."""
        some = slice(first, end)
        return Room(self.content[some], self.leaves[some], self.rows[some], self.id_ends[some], self.ids[low:high])


@dataclass(frozen=True, slots=True)
class Strings:
    """Values of a string array: their bytes, and where each ends in them."""

    ends: Ends
    data: Bytes

    @staticmethod
    def of(values: Any) -> "Strings":
        """Of a plain string array without nulls; the bytes are not copied.

        Raises:
            TypeError: It is none.
        """
        if values.type != pa.string() or values.null_count:
            raise TypeError("the strings of a member are of another kind, or one is absent")
        _, offsets, data = values.buffers()
        borders = _borders(offsets, len(values), values.offset)
        first, last = int(borders[0]), int(borders[-1])
        return Strings(borders[1:] - borders[0], np.frombuffer(data or b"", np.uint8)[first:last])

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return len(self.data)


def _borders(offsets: Any, count: int, first: int) -> Ends:
    return np.frombuffer(offsets, np.int32, count + 1, first * 4) if count else np.zeros(1, np.int32)


class Members(Protocol):
    """What is put down: a run, whose context is plain strings or small dictionaries."""

    @property
    def ids(self) -> Any: ...
    @property
    def context(self) -> tuple[Any, Any, Any]: ...
    @property
    def content(self) -> Bytes32: ...
    @property
    def leaves(self) -> Bytes32: ...
    @property
    def rows(self) -> Any: ...


class RunFile:
    """Members of one shard in a file, range after range; in memory are a few numbers a range.

    Args:
        pieces: Of each range that has members; their context is of one kind in all of them.

    Effects: the file, which was not there.
    """

    def __init__(self, path: Path, pieces: Sequence[Members]) -> None:
        self._path = path
        # Of each of the three: the dictionary, of which numbers are stored unless it has one entry; None is strings.
        self._kinds = [
            values.dictionary if pa.types.is_dictionary(values.type) else None for values in pieces[0].context
        ]
        # Where the range begins, its members, the bytes of their ids, and those of what of the context is strings.
        facts = []
        with path.open("xb", buffering=0) as file:
            for piece in pieces:
                at, ids, rows = file.tell(), Strings.of(piece.ids), np.ascontiguousarray(piece.rows, np.uint32)
                taken = [_taken_apart(values) for values in piece.context]
                facts.append([at, len(rows), ids.size, *(size for size, _ in taken)])
                arrays: list[npt.NDArray[Any]] = [piece.content, piece.leaves, rows, ids.ends, ids.data]
                for view in _views([*arrays, *(array for _, more in taken for array in more)]):
                    _write(file, view)
        self._facts = np.array(facts, np.int64)

    def sizes(self, place: int) -> tuple[int, int]:
        """Members of one of the pieces, and bytes of their ids."""
        return int(self._facts[place, 1]), int(self._facts[place, 2])

    def read(self, place: int, room: Room) -> tuple[Any, Any, Any]:
        """Read one of the pieces; returns the context of its members."""
        at, rows, _, *sizes = self._facts[place].tolist()
        columns = [_Column(rows, kind, size) for kind, size in zip(self._kinds, sizes, strict=True)]
        arrays: list[npt.NDArray[Any]] = [room.content, room.leaves, room.rows, room.id_ends, room.ids]
        arrays += [array for column in columns for array in column.arrays]
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _read(file, _views(arrays), at)
        finally:
            os.close(file)
        source, version, split = (column.value() for column in columns)
        return source, version, split


class _Column:
    """One of the three strings beside the ids, on its way from a file."""

    def __init__(self, rows: int, dictionary: Any | None, size: int) -> None:
        self._rows, self._dictionary = rows, dictionary
        self.arrays: list[npt.NDArray[Any]] = []
        if dictionary is None:
            self.arrays = [np.empty(rows, np.int32), np.empty(size, np.uint8)]
        elif len(dictionary) > 1:
            self.arrays = [np.empty(rows, _CODE)]

    def value(self) -> Any:
        """Its array, once it is read."""
        if self._dictionary is None:
            ends, data = self.arrays
            borders = np.concatenate([np.zeros(1, np.int32), ends])
            return pa.StringArray.from_buffers(self._rows, pa.py_buffer(borders), pa.py_buffer(data))
        numbers = self.arrays[0] if self.arrays else np.zeros(self._rows, _CODE)
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self._dictionary)


def _taken_apart(values: Any) -> tuple[int, list[npt.NDArray[Any]]]:
    """Bytes of a column's strings, where it is no dictionary, and what is written of it."""
    if not pa.types.is_dictionary(values.type):
        strings = Strings.of(values)
        return strings.size, [strings.ends, strings.data]
    if values.null_count or values.dictionary.null_count:
        raise TypeError("a string of a member is absent")
    if len(values.dictionary) == 1:
        return 0, []
    return 0, [values.indices.to_numpy().astype(_CODE)]


def _views(arrays: Sequence[npt.NDArray[Any]]) -> list[memoryview]:
    """Bytes of contiguous arrays, without those that have none."""
    return [array.data.cast("B") for array in arrays if array.size]


def _write(file: Any, view: memoryview) -> None:
    while view:
        view = view[file.write(view) :]


def _read(file: int, views: list[memoryview], at: int) -> None:
    """Fill what follows each other in a file."""
    while views:
        done = os.preadv(file, views, at)
        if not done:
            raise EOFError("a file of members ends too early")
        at += done
        while views and done >= len(views[0]):
            done -= len(views.pop(0))
        if done:
            views[0] = views[0][done:]
