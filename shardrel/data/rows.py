"""Rows of a stretch of steps: gathered once for all of them, or batch by batch where rows are wide.

Source: schemas/SPEC.md#decoded-columns
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.data.columns import Column, Ints, RowViews, StoredColumn, Taken, gather, pick, stored_column
from shardrel.data.decoded import DecodedShard
from shardrel.data.forms import form_of, stored_type
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import Field

V = TypeVar("V")

WIDE = 4096
"""Bytes from which on a row costs more than a call: such rows are copied when their batch is asked for."""


class Rows(Protocol):
    """Columns of some samples, by name."""

    @property
    def names(self) -> Sequence[str]:
        """Of the columns."""
        ...

    def column(self, name: str, low: int, high: int) -> Column:
        """One column of samples low … high−1."""
        ...

    def views(self, name: str, low: int, high: int, made: Callable[[npt.NDArray[Any]], V]) -> list[V]:
        """What ``made`` makes of the numbers of each of those samples."""
        ...


class HeldRows:
    """Rows that came from another process."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns
        self.names = tuple(columns)

    def column(self, name: str, low: int, high: int) -> Column:
        """One column of samples low … high−1."""
        return self._columns[name].slice(low, high)

    def views(self, name: str, low: int, high: int, made: Callable[[npt.NDArray[Any]], V]) -> list[V]:
        """What ``made`` makes of the numbers of each of those samples."""
        column = self.column(name, low, high)
        if column.values is None:
            return []
        if column.ends is None:
            return [made(column.values[row, ...]) for row in range(column.rows)]
        return [made(column.values[a:b]) for a, b in itertools.pairwise(column.ends.tolist())]


class GatheredRows:
    """Rows of opened shards; each column is gathered when it is first asked for."""

    def __init__(self, fields: Sequence[Field], shards: Sequence[DecodedShard], slots: Ints, rows: Ints) -> None:
        self.names = tuple(field.name for field in fields)
        self._fields = fields
        self._shards = shards
        self._slots = slots
        self._rows = rows
        self._gathered: dict[str, Column] = {}
        self._wide: dict[str, bool] = {}
        self._views: dict[str, RowViews] = {}

    def column(self, name: str, low: int, high: int) -> Column:
        """One column of samples low … high−1."""
        place = self.names.index(name)
        if not self._shards:
            return _empty(self._fields[place])
        if name not in self._wide:
            self._wide[name] = _is_wide(self._stored(place))
        if self._wide[name]:
            return pick(self._stored(place), self._slots[low:high], self._rows[low:high])
        if name not in self._gathered:
            parts = [
                Taken(column=self._shards[slot].columns[place], rows=self._rows[at], at=at)
                for slot, at in _groups(self._slots)
            ]
            self._gathered[name] = gather(parts, len(self._rows))
        return self._gathered[name].slice(low, high)

    def views(self, name: str, low: int, high: int, made: Callable[[npt.NDArray[Any]], V]) -> list[V]:
        """What ``made`` makes of the numbers of each of those samples, in the mapped files themselves."""
        if name not in self._views:
            self._views[name] = RowViews(self._stored(self.names.index(name)), self._slots, self._rows)
        return self._views[name].between(low, high, made)

    def lengths(self, name: str) -> Ints:
        """Elements of every sample's list; nothing is gathered.

        Raises:
            InvalidInputError: ``input.column-type``: a null, or no lists of numbers, strings or binaries.
        """
        stored = self._stored(self.names.index(name))
        out = np.zeros(len(self._rows), np.int64)
        for slot, at in _groups(self._slots):
            column = stored[slot]
            if column.starts is None or (column.valid is not None and not column.valid[self._rows[at]].all()):
                raise InvalidInputError(ErrorCode.INPUT_COLUMN_TYPE, "only lists without nulls are packed", column=name)
            out[at] = column.spans(self._rows[at])[1] // column.form.width
        return out

    def _stored(self, place: int) -> list[StoredColumn]:
        return [shard.columns[place] for shard in self._shards]


def table_of(rows: Rows, low: int, high: int) -> Any:
    """Arrow table of samples low … high−1, by their logical types."""
    return pa.table([rows.column(name, low, high).arrow() for name in rows.names], list(rows.names))


def _is_wide(columns: Sequence[StoredColumn]) -> bool:
    if any(column.form.kind == "arrow" for column in columns):
        return False
    rows = sum(len(column.array) for column in columns)
    return sum(0 if column.data is None else len(column.data) for column in columns) >= WIDE * max(rows, 1)


def _groups(slots: Ints) -> Iterable[tuple[int, Ints]]:
    """Places of each shard's samples."""
    order = np.argsort(slots, kind="stable")
    found, starts = np.unique(slots[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    return [(slot, order[a:b]) for slot, a, b in zip(found.tolist(), starts.tolist(), ends, strict=True)]


def _empty(field: Field) -> Column:
    form = form_of(field)
    column = stored_column(pa.array([], stored_type(form)), form)
    none = np.zeros(0, np.int64)
    return gather([Taken(column=column, rows=none, at=none)], 0)
