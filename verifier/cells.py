"""Cells and bodies of every type, as pieces. Source: schemas/SPEC.md#record-encoding

Every function takes a mask of the rows that exist: a struct's null takes its fields' cells away, a list's
null its elements, and what lies hidden under them is neither encoded nor looked at.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records import schema as rs
from verifier.elements import fixed_bytes, fixed_width
from verifier.layout import Positions, Spans, folded, spans, taken, undressed
from verifier.pieces import Bytes, Fixed, Mask, Piece, Varying, constant, numbers, slices, weave
from verifier.utf8 import is_ascii

Place = rs.Field | rs.Slot

_NO_OFFSETS = np.zeros(1, np.int32)


def cell(place: Place, values: Any, outer: Mask | None) -> list[Piece]:
    """``0x00`` for a null, else ``0x01`` and the body; nothing in rows that ``outer`` leaves out.

    Raises:
        InvalidInputError: ``input.invalid-utf8``, ``input.null-not-allowed``, ``input.invalid``.
    """
    kind = place.type
    if isinstance(kind, rs.NullType):
        _check_nulls(place, len(values), outer)
        return [constant(b"\0", outer)]
    values = undressed(values)
    if (fold := folded(values)) is not None:
        entries, indices = fold
        if pt.is_nested(undressed(entries).type):
            return [_unfolded(place, entries, indices, outer)]
        return cell(place, taken(undressed(entries), indices), outer)
    valid = _both(outer, values)
    if valid is outer or valid is None:
        presence: Piece = constant(b"\1", outer)
    else:
        _check_nulls(place, int(np.count_nonzero(~valid if outer is None else outer & ~valid)), None)
        presence = numbers(valid.view(np.uint8), outer)
    return [presence, *_body(kind, values, valid)]


def _check_nulls(place: Place, nulls: int, outer: Mask | None) -> None:
    if not place.nullable and (nulls if outer is None else np.count_nonzero(outer)):
        raise InvalidInputError(ErrorCode.INPUT_NOT_NULL, "a null stands where none may be")


def _both(outer: Mask | None, values: Any) -> Mask | None:
    """Rows that exist (``outer``) and are not null; None where that is all of them."""
    if not values.null_count:
        return outer
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid if outer is None else outer & valid


def _unfolded(place: Place, entries: Any, indices: Positions, outer: Mask | None) -> Varying:
    """Cells of nested entries, encoded once an entry and gathered once a row; -1 is a null."""
    shown = indices if outer is None else indices[outer]
    used = np.zeros(len(entries) + 1, bool)
    used[shown] = True
    _check_nulls(place, int(used[-1]), None)
    cells = weave(len(entries), cell(place, entries, used[:-1]))
    with_null = pa.concat_arrays([cells, pa.array([b"\0"], pa.binary())])
    places = np.where(indices < 0, len(entries), indices)
    return Varying(with_null.take(pa.array(places, mask=None if outer is None else ~outer)))


def _body(kind: rs.LogicalType, values: Any, valid: Mask | None) -> list[Piece]:
    match kind:
        case rs.StringType() | rs.BinaryType():
            return _bytes_body(values, valid, text=isinstance(kind, rs.StringType))
        case rs.ListType(element=element):
            return _list_body(element, spans(values, valid), valid)
        case rs.MapType(key=key, value=value):
            return _map_body(key, value, spans(values, valid), valid)
        case rs.StructType(fields=fields):
            children = [values.field(number) for number in range(len(fields))]
            return [p for f, child in zip(fields, children, strict=True) for p in cell(f, child, valid)]
    return [fixed_bytes(kind, values, valid)]


def _bytes_body(values: Any, valid: Mask | None, *, text: bool) -> list[Piece]:
    plain = values if pt.is_string(values.type) or pt.is_binary(values.type) else values.cast(pa.binary())
    offsets = (
        np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1, plain.offset * 4) if len(plain) else _NO_OFFSETS
    )
    data = plain.buffers()[2] or b""
    piece = slices(offsets, data, valid)
    if text and not is_ascii(data, int(offsets[0]), int(offsets[-1])):
        _check_utf8(piece.values)
    return [numbers(np.diff(offsets).astype(np.int64), valid), piece]


def _check_utf8(values: Any) -> None:
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid as err:
        raise InvalidInputError(ErrorCode.INPUT_UTF8, "a string is not valid UTF-8") from err


def _list_body(element: rs.Slot, found: Spans, valid: Mask | None) -> list[Piece]:
    lengths = numbers(found.lengths, valid)
    if fixed_width(element.type):
        return [lengths, *_packed(element, found, valid)]
    return [lengths, _grouped(found, lambda children, shown: cell(element, children[0], shown), valid)]


def _map_body(key: rs.Slot, value: rs.Slot, found: Spans, valid: Mask | None) -> list[Piece]:
    def pair(children: tuple[Any, ...], shown: Mask | None) -> list[Piece]:
        return cell(key, children[0], shown) + cell(value, children[1], shown)

    return [numbers(found.lengths, valid), _grouped(found, pair, valid)]


def _grouped(
    found: Spans, encode: Callable[[tuple[Any, ...], Mask | None], list[Piece]], valid: Mask | None
) -> Varying:
    """The cells of each row's elements, one after another."""
    first, total = found.first_if_contiguous(), found.total
    if first is not None:
        cells = weave(total, encode(tuple(child.slice(first, total) for child in found.children), None))
    else:
        shown = np.zeros(len(found.children[0]), bool)
        places = found.positions()
        shown[places] = True
        cells = weave(len(shown), encode(found.children, shown)).take(pa.array(places))
    borders = np.frombuffer(cells.buffers()[1], np.int32, len(cells) + 1, cells.offset * 4)
    return slices(borders[_offsets(found)], cells.buffers()[2] or b"", valid)


def _offsets(found: Spans) -> Positions:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(found.lengths)])


def _packed(element: rs.Slot, found: Spans, valid: Mask | None) -> list[Piece]:
    """Elements of one width: a mark, then (where an element is null) a byte an element, then the bodies."""
    bodies, here = _elements(element.type, found)
    offsets, some = _offsets(found), found.lengths > 0
    every = None if bool(some.all()) else some
    ends = offsets * bodies.shape[1]
    if here is None:
        return [constant(b"\0", every), slices(ends, bodies, valid)]
    _check_nulls(element, int(np.count_nonzero(~here)), None)
    bodies = np.where(here[:, None], bodies, np.uint8(0))
    nulls = np.concatenate([np.zeros(1, np.int64), np.cumsum(~here)])
    holed = np.diff(nulls[offsets]) > 0
    flags = slices(offsets, here.view(np.uint8), holed)
    return [Fixed(holed.view(np.uint8).reshape(-1, 1), every), flags, slices(ends, bodies, valid)]


def _elements(kind: rs.LogicalType, found: Spans) -> tuple[Bytes, Mask | None]:
    """Bodies of all rows' elements, and which of them are not null (None: all)."""
    child, first, places = undressed(found.children[0]), found.first_if_contiguous(), None
    if first is not None:
        child = child.slice(first, found.total)
    else:
        places = found.positions()
    while (fold := folded(child)) is not None:
        child = taken(undressed(fold[0]), fold[1])
    shown = None
    if places is not None:
        shown = np.zeros(len(child), bool)
        shown[places] = True
    bodies = fixed_bytes(kind, child, shown).values
    here: Mask | None = child.is_valid().to_numpy(zero_copy_only=False) if child.null_count else None
    if places is None:
        return bodies, here
    return bodies[places], None if here is None else here[places]
