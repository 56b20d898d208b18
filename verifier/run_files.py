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
        """Of a plain string array without nulls; the bytes are not copied."""
        _, offsets, data = values.buffers()
        borders = (
            np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
            if len(values)
            else np.zeros(1, np.int32)
        )
        first, last = int(borders[0]), int(borders[-1])
        return Strings(borders[1:] - borders[0], np.frombuffer(data or b"", np.uint8)[first:last])

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return len(self.data)


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


@dataclass(frozen=True, slots=True)
class Stored:
    """Members of one range in a file.

    Attributes:
        at: Where they begin.
        rows: How many they are.
        id_bytes: Of their sample ids.
        context: For each of the three, the dictionary that numbers are stored for, of which none are where it has one
            entry; or the bytes of the strings.
    """

    path: Path
    at: int
    rows: int
    id_bytes: int
    context: tuple[Any | int, ...]

    def __len__(self) -> int:
        return self.rows

    def read(self, room: Room) -> tuple[Any, Any, Any]:
        """Read the members; returns their context."""
        columns = [_Column(self.rows, of) for of in self.context]
        arrays: list[npt.NDArray[Any]] = [room.content, room.leaves, room.rows, room.id_ends, room.ids]
        arrays += [array for column in columns for array in column.arrays]
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _read(file, _views(arrays), self.at)
        finally:
            os.close(file)
        source, version, split = (column.value() for column in columns)
        return source, version, split


class _Column:
    """One of the three strings beside the ids, on its way from a file."""

    def __init__(self, rows: int, of: Any | int) -> None:
        self._rows, self._of = rows, of
        self.arrays: list[npt.NDArray[Any]] = []
        if isinstance(of, int):
            self.arrays = [np.empty(rows, np.int32), np.empty(of, np.uint8)]
        elif len(of) > 1:
            self.arrays = [np.empty(rows, _CODE)]

    def value(self) -> Any:
        """Its array, once it is read."""
        if isinstance(self._of, int):
            ends, data = self.arrays
            borders = np.concatenate([np.zeros(1, np.int32), ends])
            return pa.StringArray.from_buffers(self._rows, pa.py_buffer(borders), pa.py_buffer(data))
        numbers = self.arrays[0] if self.arrays else np.zeros(self._rows, _CODE)
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self._of)


def put_down(path: Path, pieces: Sequence[Members]) -> list[Stored]:
    """Write members of several ranges.

    Effects: one file, which was not there.
    """
    stored = []
    with path.open("xb", buffering=0) as file:
        for piece in pieces:
            at, ids = file.tell(), Strings.of(piece.ids)
            rows = np.ascontiguousarray(piece.rows, np.uint32)
            arrays: list[npt.NDArray[Any]] = [piece.content, piece.leaves, rows, ids.ends, ids.data]
            context: list[Any | int] = []
            for values in piece.context:
                of, more = _taken_apart(values)
                context.append(of)
                arrays += more
            for view in _views(arrays):
                _write(file, view)
            stored.append(Stored(path=path, at=at, rows=len(rows), id_bytes=ids.size, context=tuple(context)))
    return stored


def _taken_apart(values: Any) -> tuple[Any | int, list[npt.NDArray[Any]]]:
    """What is kept of a column, as ``Stored`` has it, and what is written."""
    if not pa.types.is_dictionary(values.type):
        strings = Strings.of(values)
        return strings.size, [strings.ends, strings.data]
    if len(values.dictionary) == 1:
        return values.dictionary, []
    return values.dictionary, [values.indices.to_numpy(zero_copy_only=False).astype(_CODE)]


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
