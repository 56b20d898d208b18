"""Types of JSON values, inferred over all of them. Source: schemas/SPEC.md#sources.

Closed and dull on purpose: null, bool, int64 (uint64 where needed), float64, string, list and struct.
A string is never a time. The order of fields is that of their first appearance.
"""

from typing import Any

import pyarrow as pa

from shardrel.errors import ErrorCode, InvalidInputError

# Some more than a record schema allows, which says so for all formats alike.
_MAX_DEPTH = 80
# Every integer up to here is a float64, too.
_EXACT = 2**53
_KINDS: dict[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "list", dict: "struct"}


class Shape:
    """What was seen at one place of the records: of a column, an element or a field.

    Attributes:
        kind: ``bool``, ``number``, ``string``, ``list``, ``struct``; None while only nulls were seen.
        fractional: Whether a number was written with a point or an exponent.
        low, high: Range of the integers.
        element: Of the elements of lists.
        fields: Of the fields of structs, in order of first appearance.
        depth: Of the place: 0 for whole records.
    """

    __slots__ = ("depth", "element", "fields", "fractional", "high", "kind", "low")

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.kind: str | None = None
        self.fractional = False
        self.low = 0
        self.high = 0
        self.element: Shape | None = None
        self.fields: dict[str, Shape] = {}

    def observe(self, value: Any, place: str = "") -> None:
        """Widen by one value.

        Raises:
            InvalidInputError: ``schema.conflict`` with the column in its context; ``schema.unsupported-type`` where it
                is nested too deeply.
        """
        if value is None:
            return
        kind = type(value)
        name = _KINDS[kind]
        if self.kind != name:
            self._set_kind(name, place)
        if kind is dict:
            self.observe_fields(value, place)
        elif kind is list:
            self._observe_elements(value, place)
        elif kind is int:
            self._observe_range(value, value)
        elif kind is float:
            self.fractional = True

    def observe_fields(self, record: dict[str, Any], place: str = "") -> None:
        """Widen by a struct's fields, or by a whole record."""
        fields = self.fields
        for name, value in record.items():
            shape = fields.get(name)
            if shape is None:
                shape = fields[name] = self._inner(f"{place}.{name}" if place else name)
            # Most values are text in a column of text: no call for them.
            if value is not None and not (type(value) is str and shape.kind == "string"):
                shape.observe(value, f"{place}.{name}" if place else name)

    def merge(self, other: "Shape", place: str = "") -> None:
        """Widen by all that another shape saw.

        Raises:
            InvalidInputError: ``schema.conflict``.
        """
        if other.kind is not None and self.kind != other.kind:
            self._set_kind(other.kind, place)
        self.fractional |= other.fractional
        self._observe_range(other.low, other.high)
        if other.element is not None:
            self._element(place).merge(other.element, place)
        for name, shape in other.fields.items():
            self.fields.setdefault(name, Shape(shape.depth)).merge(shape, f"{place}.{name}" if place else name)

    def arrow_type(self, place: str = "") -> Any:
        """``pa.DataType`` that holds every value exactly.

        Raises:
            InvalidInputError: ``schema.conflict``: no 64-bit type holds all numbers.
        """
        match self.kind:
            case None:
                return pa.null()
            case "bool":
                return pa.bool_()
            case "string":
                return pa.string()
            case "number":
                return self._number_type(place)
            case "list":
                return pa.list_(self._element(place).arrow_type(place))
            case _:
                return pa.struct(self.arrow_fields(place))

    def arrow_fields(self, place: str = "") -> list[Any]:
        """The fields as ``pa.Field``, all nullable."""
        return [
            pa.field(name, shape.arrow_type(f"{place}.{name}" if place else name))
            for name, shape in self.fields.items()
        ]

    def _number_type(self, place: str) -> Any:
        if self.fractional:
            if max(-self.low, self.high) > _EXACT:
                raise _conflict(place, "fractions beside integers that no float64 holds exactly")
            return pa.float64()
        if self.low >= -(2**63) and self.high < 2**63:
            return pa.int64()
        if self.low >= 0 and self.high < 2**64:
            return pa.uint64()
        raise _conflict(place, "integers that no type of 64 bits holds")

    def _observe_elements(self, values: list[Any], place: str) -> None:
        element = self._element(place)
        kinds = set(map(type, values))
        if kinds == {int}:
            if element.kind != "number":
                element._set_kind("number", place)
            element._observe_range(min(values), max(values))
        elif kinds == {str} or kinds == {float}:
            element.observe(values[0], place)
        else:
            for value in values:
                element.observe(value, place)

    def _observe_range(self, low: int, high: int) -> None:
        if low < self.low:
            self.low = low
        if high > self.high:
            self.high = high

    def _element(self, place: str) -> "Shape":
        if self.element is None:
            self.element = self._inner(place)
        return self.element

    def _inner(self, place: str) -> "Shape":
        """The shape of a place inside of this one; walking over shapes recurses, so their depth is bounded."""
        if self.depth == _MAX_DEPTH:
            raise InvalidInputError(
                ErrorCode.SCHEMA_UNSUPPORTED,
                f"column {place.partition('.')[0]!r} has more than {_MAX_DEPTH} levels of nesting",
                column=place,
            )
        return Shape(self.depth + 1)

    def _set_kind(self, kind: str, place: str) -> None:
        if self.kind is not None:
            raise _conflict(place, f"{self.kind} and {kind} values")
        self.kind = kind


def _conflict(place: str, what: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.SCHEMA_CONFLICT, f"column {place!r} has {what}", column=place)
