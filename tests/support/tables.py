"""Strategies of nested Arrow tables, and of other clothes for the same values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as at
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

LEAVES = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
    pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(4, -3), pa.decimal128(3, 9), pa.decimal256(50, 7),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Zurich"), pa.timestamp("ns", "UTC"),
    pa.duration("s"), pa.duration("ns"), pa.string(), pa.binary(), pa.binary(0), pa.binary(3), pa.binary(16),
]  # fmt: skip

# Few values, so that equal ones and neighbours that could be confused turn up.
TEXTS = ["", "\0", "\x00\x01", "a", "b", "ab", "é", "e\u0301", "😀", "a" * 40]
_BYTES = [b"", b"\0", b"\x01", b"\xff\xfe", b"a", b"ab", b"\x01" + bytes(8)]


def leaf_types() -> SearchStrategy[Any]:
    """Plain types without children."""
    return st.sampled_from(LEAVES)


def types() -> SearchStrategy[Any]:
    """Plain types, nested at times."""
    return st.recursive(leaf_types(), _nested_types, max_leaves=4)


def _nested_types(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.one_of(
        inner.map(pa.list_),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct([(f"f{i}", t) for i, t in enumerate(ts)])),
        st.tuples(leaf_types().filter(lambda t: not at.is_null(t)), inner).map(lambda pair: pa.map_(*pair)),
    )


@st.composite
def arrays(draw: DrawFn, arrow: Any, rows: int, *, nulls: bool = True) -> Any:
    """Arrays of a plain type with ``rows`` rows; under nulls lie values that a reader never sees."""
    if at.is_null(arrow):
        return pa.nulls(rows)
    mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)) if nulls else [False] * rows, bool)
    if at.is_struct(arrow):
        fields = [arrow.field(i) for i in range(arrow.num_fields)]
        children = [draw(arrays(field.type, rows)) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(mask))
    if at.is_map(arrow) or at.is_list(arrow):
        return draw(_ranges(arrow, rows, mask))
    return draw(_leaf_array(arrow, rows, mask))


@st.composite
def _ranges(draw: DrawFn, arrow: Any, rows: int, mask: Any) -> Any:
    sizes = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    total = int(sum(sizes))
    if at.is_map(arrow):
        keys = draw(arrays(arrow.key_type, total, nulls=False))
        items = draw(arrays(arrow.item_type, total))
        return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=pa.array(mask))
    return pa.ListArray.from_arrays(offsets, draw(arrays(arrow.value_type, total)), type=arrow, mask=pa.array(mask))


@st.composite
def _leaf_array(draw: DrawFn, arrow: Any, rows: int, mask: Any) -> Any:
    def values(strategy: SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(strategy, min_size=rows, max_size=rows))

    if at.is_string(arrow):
        return pa.array(values(st.sampled_from(TEXTS)), arrow, mask=mask)
    if at.is_fixed_size_binary(arrow):
        size = arrow.byte_width
        return pa.array(values(st.binary(min_size=size, max_size=size)), arrow, mask=mask)
    if at.is_binary(arrow):
        return pa.array(values(st.sampled_from(_BYTES)), arrow, mask=mask)
    if at.is_boolean(arrow):
        return pa.array(values(st.booleans()), arrow, mask=mask)
    width = arrow.bit_width // 8
    if at.is_decimal(arrow):
        top = 10**arrow.precision - 1
        raw = b"".join(v.to_bytes(width, "little", signed=True) for v in values(st.integers(-top, top)))
    else:
        raw = b"".join(values(_bits(arrow, width)))
    validity = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(arrow, rows, [validity, pa.py_buffer(raw)])


def _bits(arrow: Any, width: int) -> SearchStrategy[bytes]:
    """Raw values: any bits, and often the ones that matter (zeros of both signs, NaNs, extremes)."""
    special = [bytes(width), bytes(width - 1) + b"\x80", b"\xff" * width, b"\x01" + bytes(width - 1)]
    if at.is_floating(arrow):
        nan = {2: b"\x00\x7e", 4: b"\x00\x00\xc0\x7f", 8: bytes(6) + b"\xf8\x7f"}[width]
        special += [nan, b"\x01" + nan[1:]]
    if at.is_time(arrow) or at.is_date(arrow):
        # Readers check their range; what lies outside is no time of day and no day.
        return st.integers(0, 80_000).map(lambda v: (v * _day(arrow)).to_bytes(width, "little"))
    return st.one_of(st.sampled_from(special), st.binary(min_size=width, max_size=width))


def _day(arrow: Any) -> int:
    return 86_400_000 if at.is_date64(arrow) else 1


@st.composite
def tables(draw: DrawFn, *, max_rows: int = 5, max_columns: int = 3) -> Any:
    """Tables in plain clothes, one chunk a column."""
    rows = draw(st.integers(0, max_rows))
    kinds = draw(st.lists(types(), min_size=1, max_size=max_columns))
    return pa.table({f"c{i}": draw(arrays(kind, rows)) for i, kind in enumerate(kinds)})


@st.composite
def dressed(draw: DrawFn, array: Any) -> Any:
    """The same values in other clothes, at every level.

    Dictionaries are not concatenated: pyarrow 26 unifies those of float16 into other values. Nor are labels: it
    cannot build some arrays of them. ``dressed_table`` slices both.
    """
    array = draw(_dressed_children(array))
    wear = draw(st.sampled_from(["as it is", "sliced", "dictionary", "runs", "wide", "view", "fixed", "label"]))
    if wear == "sliced" and not any(word in str(array.type) for word in ("dictionary", "extension")):
        array = pa.concat_arrays([array, array]).slice(len(array), len(array))
    elif wear == "dictionary" and len(array):
        array = _dictionary(array)
    elif wear == "runs" and len(array):
        array = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)
    elif wear in ("wide", "view"):
        array = _variant(array, wear)
    elif wear == "fixed":
        array = _fixed(array)
    elif wear == "label" and not at.is_nested(array.type):
        array = pa.ExtensionArray.from_storage(pa.opaque(array.type, "anything", "tests"), array)
    return array


@st.composite
def dressed_table(draw: DrawFn, table: Any) -> Any:
    """A table of the same values in other clothes and other chunks."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        whole = column.combine_chunks() if column.num_chunks else pa.array([], column.type)
        worn = draw(dressed(whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole))
        cut = draw(st.integers(0, len(worn)))
        columns[name] = pa.chunked_array([worn.slice(0, cut), worn.slice(cut)])
    return pa.table(columns)


@st.composite
def _dressed_children(draw: DrawFn, array: Any) -> Any:
    arrow, mask = array.type, array.is_null()
    if at.is_struct(arrow):
        children = [draw(dressed(array.field(i))) for i in range(arrow.num_fields)]
        names = [arrow.field(i).name for i in range(arrow.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=mask)
    if at.is_list(arrow):
        return pa.ListArray.from_arrays(_fresh(array), draw(dressed(array.values)), mask=mask)
    if at.is_map(arrow):
        keys, items = draw(dressed(array.keys)), draw(dressed(array.items))
        return pa.MapArray.from_arrays(_fresh(array), keys, items, mask=mask)
    return array


def _fresh(array: Any) -> Any:
    return pa.array(np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4))


def _dictionary(array: Any) -> Any:
    """The nulls once in the dictionary and once in the indices; leaves in reverse order."""
    rows = len(array)
    order = list(range(rows))
    if not at.is_nested(array.type):
        order.reverse()
        array = array.take(pa.array(order, pa.int64()))
    valid = array.is_valid().to_pylist()
    index = [None if i % 2 and not valid[at_] else at_ for i, at_ in enumerate(order)]
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int16()), array)


def _variant(array: Any, wear: str) -> Any:
    arrow = array.type
    wide = wear == "wide"
    if at.is_string(arrow):
        return array.cast(pa.large_string() if wide else pa.string_view())
    if at.is_binary(arrow):
        return array.cast(pa.large_binary() if wide else pa.binary_view())
    if at.is_decimal(arrow) and arrow.precision <= 9 and not array.null_count:
        return array.cast((pa.decimal256 if wide else pa.decimal32)(arrow.precision, arrow.scale))
    if at.is_list(arrow):
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
        if wide:
            wide_offsets = pa.array(offsets.astype(np.int64))
            return pa.LargeListArray.from_arrays(wide_offsets, array.values, mask=array.is_null())
        sizes = pa.array(np.diff(offsets))
        return pa.ListViewArray.from_arrays(pa.array(offsets[:-1]), sizes, array.values, mask=array.is_null())
    return array


def _fixed(array: Any) -> Any:
    """A fixed-size list where all rows have one size."""
    if not at.is_list(array.type) or not len(array):
        return array
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    sizes = set(np.diff(offsets).tolist())
    if len(sizes) > 1 or 0 in sizes:
        return array
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return pa.FixedSizeListArray.from_arrays(values, sizes.pop(), mask=array.is_null())


_NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(),
]  # fmt: skip


@st.composite
def packable_columns(draw: DrawFn) -> Any:
    """Lists that can be packed: ragged or of one size, around lists of one size at times, with nulls among the rows."""
    kind = draw(st.sampled_from(_NUMBERS))
    sizes = draw(st.lists(st.integers(1, 3), max_size=2))
    rows, outer = draw(st.integers(0, 5)), draw(st.one_of(st.none(), st.integers(0, 3)))
    mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), bool)
    counts = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)) if outer is None else [outer] * rows
    values = draw(arrays(kind, sum(counts) * int(np.prod(sizes, dtype=int)), nulls=False))
    for size in reversed(sizes):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    if outer:
        return pa.FixedSizeListArray.from_arrays(values, outer, mask=pa.array(mask))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(mask))
