"""Two sorted streams of tables, read side by side in bounded memory. Pure but for what the streams read."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardrel.errors import ErrorCode, IntegrityError

KEY = "sample_id"


def aligned(left: Iterable[Any], right: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of tables that cover the same range of sample ids; together they are both streams, in order.

    At most one table of each stream is held, besides the pair. Where one stream has nothing in a range, its table
    is empty; where it has no table at all, it is None.

    Args:
        left, right: ``pa.Table`` each, whose ``sample_id`` (string, no nulls) strictly grows over the whole stream.

    Raises:
        IntegrityError: ``snapshot.invalid`` where it does not.
    """
    one, other = _Stream(left), _Stream(right)
    while True:
        ends = [end for end in (one.end(), other.end()) if end is not None]
        if not ends:
            return
        cut = min(ends, key=str.encode)
        yield one.upto(cut), other.upto(cut)


class _Stream:
    """The part of a stream that was read and not handed out."""

    def __init__(self, tables: Iterable[Any]) -> None:
        self._tables = iter(tables)
        self._held: Any = None
        self._last: bytes | None = None

    def end(self) -> str | None:
        """Last sample id that is held, reading on where nothing is; None at the end of the stream."""
        while self._held is None or not self._held.num_rows:
            table = next(self._tables, None)
            if table is None:
                return None
            self._held = self._checked(table)
        return _at(self._held, -1)

    def upto(self, cut: str) -> Any:
        """What is held of the sample ids up to ``cut``; handed out."""
        if self._held is None:
            return None
        ids = self._held.column(KEY)
        count = self._held.num_rows if not len(ids) or _at(self._held, -1) == cut else _below(ids, cut)
        taken, self._held = self._held.slice(0, count), self._held.slice(count)
        return taken

    def _checked(self, table: Any) -> Any:
        table = table.set_column(table.schema.get_field_index(KEY), KEY, table.column(KEY).cast(pa.string()))
        table = table.combine_chunks()
        ids = table.column(KEY)
        if table.num_rows:
            first, last = _at(table, 0).encode(), _at(table, -1).encode()
            grows = len(ids) < 2 or pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py()
            if not grows or (self._last is not None and first <= self._last):
                raise IntegrityError(ErrorCode.SNAPSHOT_INVALID, "sample ids do not grow over the parts of a record")
            self._last = last
        return table


def _at(table: Any, place: int) -> str:
    value: str = table.column(KEY)[place if place >= 0 else table.num_rows + place].as_py()
    return value


def _below(ids: Any, cut: str) -> int:
    count: int = pc.sum(pc.less_equal(ids, cut)).as_py() or 0
    return count
