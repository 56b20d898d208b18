"""The verifier's own row encoding, written from the SPEC alone. Source: schemas/SPEC.md#record-encoding"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.sha import Bytes32, sha256_rows
from shardrel.digest import Domain
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records import schema as rs
from verifier.elements import fixed_bytes, fixed_width
from verifier.physical import map_as_list
from verifier.pieces import Mask, Piece, Varying, constant, numbers, slices, weave
from verifier.schema import content_type

SLICE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ContentDigests:
    """Raw content digests of n records, shape (n, 32), and the bytes of their canonical encodings."""

    digests: Bytes32
    logical_bytes: int


def content_digests(schema: rs.RecordSchema, columns: Any) -> ContentDigests:
    """Content digests of the records of a table or batch whose columns are those of ``schema``, in order.

    Encodes at most about 64 MiB at a time.

    Raises:
        InvalidInputError: ``input.invalid-utf8`` with the ``row`` in the context.
    """
    prefix = Domain.RECORD.value + content_type(schema)
    digests, total, row = [np.empty((0, 32), np.uint8)], 0, 0
    for batch in _slices(columns):
        encoded = _encode_at(schema, batch, prefix, row)
        digests.append(sha256_rows(encoded))
        total += _size(encoded) - len(encoded) * len(Domain.RECORD.value)
        row += batch.num_rows
    return ContentDigests(np.concatenate(digests), total)


def encode(schema: rs.RecordSchema, batch: pa.RecordBatch) -> Any:
    """Canonical encodings of the records of one batch: a binary array, contentType first."""
    return encode_batch(schema, batch, content_type(schema))


def encode_batch(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes) -> Any:
    """``prefix`` and the cells of each row; the caller bounds the batch.

    Raises:
        InvalidInputError: ``input.invalid-utf8`` with the ``row``; ``input.invalid`` beyond 2 GiB.
    """
    pieces: list[Piece] = [constant(prefix)]
    for field, values in zip(schema.fields, batch.columns, strict=True):
        pieces += _cell(field.type, values, None)
    return weave(batch.num_rows, pieces)


def _encode_at(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes, first: int) -> Any:
    try:
        return encode_batch(schema, batch, prefix)
    except InvalidInputError as err:
        if err.code != ErrorCode.INPUT_UTF8:
            raise
        row = first + _first_bad(schema, batch, prefix)
        raise InvalidInputError(err.code, "a string is not valid UTF-8", row=row) from err


def _first_bad(schema: rs.RecordSchema, batch: pa.RecordBatch, prefix: bytes) -> int:
    """Row of the first record that cannot be encoded, by halving."""
    low, high = 0, batch.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            encode_batch(schema, batch.slice(low, middle - low), prefix)
            low = middle
        except InvalidInputError:
            high = middle
    return low


def _slices(columns: Any) -> Iterator[pa.RecordBatch]:
    batches = columns.to_batches() if isinstance(columns, pa.Table) else [columns]
    for batch in batches:
        yield from _halved(batch)


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and _weight(batch) > SLICE_BYTES:
        middle = batch.num_rows // 2
        yield from _halved(batch.slice(0, middle))
        yield from _halved(batch.slice(middle))
    elif batch.num_rows:
        yield batch


def _weight(batch: pa.RecordBatch) -> int:
    """Bytes that encoding may take: the decoded values and a few bytes a value."""
    return batch.num_rows * 48 + sum(weight(column) for column in batch.columns)


def weight(values: Any) -> int:
    """Upper estimate of the decoded bytes of an array, dictionaries unfolded, in O(depth)."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return weight(values.storage)
    if pt.is_dictionary(kind):
        return _unfolded(values)
    if pt.is_run_end_encoded(kind):
        return len(values) * (9 + weight(values.values))
    if pt.is_struct(kind):
        return len(values) + sum(weight(child) for child in values.flatten())
    if pt.is_map(kind):
        return 9 * len(values) + weight(pc.list_flatten(map_as_list(values)))
    if pt.is_nested(kind):
        return 9 * len(values) + weight(pc.list_flatten(values))
    return 9 * len(values) + values.nbytes


def _unfolded(values: Any) -> int:
    entry = values.dictionary
    if not _is_bytes(entry.type):
        return len(values) * (9 + weight(entry) // max(len(entry), 1))
    sizes = pc.fill_null(pc.binary_length(entry), 0)
    return 9 * len(values) + (pc.sum(pc.take(pc.cast(sizes, pa.int64()), values.indices), min_count=0).as_py() or 0)


def _is_bytes(kind: Any) -> bool:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind)


def _plain(values: Any) -> Any:
    """The values without extension, dictionary and run-end clothing."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage)
    if pt.is_dictionary(kind):
        return _plain(values.dictionary.take(values.indices))
    if pt.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(values))
    return values


def _both(outer: Mask | None, values: Any) -> Mask | None:
    """Rows that exist (``outer``) and are not null; None where that is all of them."""
    if not values.null_count:
        return outer
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return valid if outer is None else outer & valid


def _cell(kind: rs.LogicalType, values: Any, outer: Mask | None) -> list[Piece]:
    """``0x00`` for a null, else ``0x01`` and the body; nothing in rows that ``outer`` leaves out."""
    values = _plain(values)
    if isinstance(kind, rs.NullType):
        return [constant(b"\0", outer)]
    valid = _both(outer, values)
    if valid is outer:
        presence: Piece = constant(b"\1", outer)
    else:
        assert valid is not None
        presence = numbers(valid.view(np.uint8), outer)
    return [presence, *_body(kind, values, valid)]


def _body(kind: rs.LogicalType, values: Any, valid: Mask | None) -> list[Piece]:
    match kind:
        case rs.StringType() | rs.BinaryType():
            return _bytes_body(values, valid, text=isinstance(kind, rs.StringType))
        case rs.ListType(element=element):
            return _list_body(element.type, values, valid)
        case rs.MapType(key=key, value=value):
            return _map_body(key.type, value.type, values, valid)
        case rs.StructType(fields=fields):
            children = [values.field(number) for number in range(len(fields))]
            return [p for f, child in zip(fields, children, strict=True) for p in _cell(f.type, child, valid)]
    return [fixed_bytes(kind, values, valid)]


def _bytes_body(values: Any, valid: Mask | None, *, text: bool) -> list[Piece]:
    plain = values.cast(pa.binary()) if not (pt.is_string(values.type) or pt.is_binary(values.type)) else values
    offsets = np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1, plain.offset * 4) if len(plain) else _ZERO
    data = plain.buffers()[2] or b""
    piece = slices(offsets, data, valid)
    if text and not _ascii(data, int(offsets[0]), int(offsets[-1])):
        _check_utf8(piece.values)
    return [numbers(np.diff(offsets).astype(np.int64), valid), piece]


_ZERO = np.zeros(1, np.int32)


def _ascii(data: Any, first: int, last: int) -> bool:
    return first == last or int(np.frombuffer(data, np.uint8, last - first, first).max()) < 128


def _check_utf8(values: Any) -> None:
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid as err:
        raise InvalidInputError(ErrorCode.INPUT_UTF8, "a string is not valid UTF-8") from err


def _list_body(kind: rs.LogicalType, values: Any, valid: Mask | None) -> list[Piece]:
    # list_flatten leaves out what lies under a null, whatever the layout; _reveal does so for outer nulls.
    shown = _reveal(values, valid)
    lengths = pc.fill_null(pc.list_value_length(shown), 0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    elements = _plain(pc.list_flatten(shown))
    width = fixed_width(kind)
    if width is None:
        return [numbers(lengths, valid), _cells(kind, elements, offsets, valid)]
    return [numbers(lengths, valid), *_packed(kind, elements, width, offsets, valid)]


def _reveal(values: Any, valid: Mask | None) -> Any:
    """The same lists with null for every row that is not there."""
    if valid is None or values.null_count == np.count_nonzero(~valid):
        return values
    return values.take(pa.array(np.arange(len(values)), mask=~valid))


def _cells(kind: rs.LogicalType, elements: Any, offsets: Any, valid: Mask | None) -> Varying:
    """The cells of each list's elements, one after another."""
    return _grouped(weave(len(elements), _cell(kind, elements, None)), offsets, valid)


def _grouped(cells: Any, offsets: Any, valid: Mask | None) -> Varying:
    borders = np.frombuffer(cells.buffers()[1], np.int32, len(cells) + 1)
    return slices(borders[offsets], cells.buffers()[2] or b"", valid)


def _packed(kind: rs.LogicalType, elements: Any, width: int, offsets: Any, valid: Mask | None) -> list[Piece]:
    """Elements of one width: a mark, then (where an element is null) a byte an element, then the bodies."""
    some = np.diff(offsets) > 0
    marked = some if valid is None else some & valid
    every = None if marked.all() else marked
    bodies = fixed_bytes(kind, elements, None).values
    if not elements.null_count:
        return [constant(b"\0", every), slices(offsets * width, bodies, valid)]
    here = elements.is_valid().to_numpy(zero_copy_only=False)
    bodies = np.where(here[:, None], bodies, np.uint8(0))
    nulls = np.concatenate([[0], np.cumsum(~here)])
    holed = np.diff(nulls[offsets]) > 0
    flags = slices(offsets, here.view(np.uint8), holed if valid is None else holed & valid)
    return [numbers(holed.view(np.uint8), every), flags, slices(offsets * width, bodies, valid)]


def _map_body(key: rs.LogicalType, value: rs.LogicalType, values: Any, valid: Mask | None) -> list[Piece]:
    shown = _reveal(map_as_list(values), valid)
    lengths = pc.fill_null(pc.list_value_length(shown), 0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    pairs = pc.list_flatten(shown)
    cells = weave(len(pairs), _cell(key, pairs.field(0), None) + _cell(value, pairs.field(1), None))
    return [numbers(lengths, valid), _grouped(cells, offsets, valid)]


def _size(encoded: Any) -> int:
    offsets = np.frombuffer(encoded.buffers()[1], np.int32, len(encoded) + 1)
    return int(offsets[-1]) - int(offsets[0])
