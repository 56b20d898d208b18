"""Each kind of change, renames, and what a type holds of another."""

from typing import Any

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.evolution import Rename
from shardrel.records.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Extension,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    LogicalType,
    MapType,
    NullType,
    RecordSchema,
    Slot,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)
from shardrel.records.schema_changes import compare
from verifier.schema_changes import RenameError, changes_between

TEXT = StringType()


def column(name: str, kind: LogicalType = TEXT, *, nullable: bool = True, extension: Any = None) -> Field:
    return Field(name=name, nullable=nullable, type=kind, extension=extension)


def schema(*fields: Field) -> RecordSchema:
    return RecordSchema(fields=fields)


def integer(bits: Any, *, signed: bool = True) -> IntType:
    return IntType(bits=bits, signed=signed)


def decimal(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision=precision, scale=scale)


def a_list(kind: LogicalType, size: int | None = None) -> ListType:
    return ListType(element=Slot(nullable=True, type=kind), size=size)


WIDER: list[tuple[LogicalType, LogicalType]] = [
    (integer(32), integer(64)),
    (integer(32, signed=False), integer(64)),
    (FloatType(bits=32), FloatType(bits=64)),
    (decimal(10, 2), decimal(12, 2)),
    (decimal(10, 2), decimal(12, 4)),
    (DateType(unit="day"), DateType(unit="ms")),
    (TimeType(unit="s"), TimeType(unit="us")),
    (FixedBinaryType(size=4), BinaryType()),
    (a_list(TEXT, 3), a_list(TEXT)),
    (NullType(), TEXT),
]
OTHER: list[tuple[LogicalType, LogicalType]] = [
    (integer(64), integer(64, signed=False)),
    (integer(32), integer(32, signed=False)),
    (integer(8), FloatType(bits=32)),
    (decimal(10, 2), decimal(11, 4)),
    # A count of 64 bits reaches not as far in a finer unit.
    (TimestampType(unit="s", zone=None), TimestampType(unit="ns", zone=None)),
    (TimestampType(unit="s", zone=None), TimestampType(unit="s", zone="UTC")),
    (TEXT, BinaryType()),
    (a_list(TEXT, 2), a_list(TEXT, 3)),
    (a_list(TEXT), TEXT),
]


def kinds(old: RecordSchema, new: RecordSchema, *renames: Rename) -> list[tuple[str, tuple[str, ...]]]:
    """What both programs say, which has to be the same."""
    changes = compare(old, new, renames)
    assert list(changes_between(old, new, renames)) == changes
    return [(change.kind, change.path) for change in changes]


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_type_that_holds_all_values_of_the_other_is_wider(narrow: LogicalType, wide: LogicalType) -> None:
    old, new = schema(column("a", narrow)), schema(column("a", wide))
    assert kinds(old, new) == [("widened", ("a",))]
    assert kinds(new, old) == [("narrowed", ("a",))]


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_any_other_type_is_a_change(one: LogicalType, other: LogicalType) -> None:
    old, new = schema(column("a", one)), schema(column("a", other))
    assert kinds(old, new) == kinds(new, old) == [("changed", ("a",))]


def test_another_extension_is_a_change() -> None:
    old = schema(column("a"))
    new = schema(column("a", extension=Extension(name="arrow.json", parameters="")))
    [change] = compare(old, new)
    assert (change.kind, change.was, change.now) == ("changed", "string", "string as arrow.json")


def test_differences_at_every_depth_are_named_by_their_path() -> None:
    def nested(bits: Any, *more: Field) -> RecordSchema:
        inner = StructType(fields=(column("n", integer(bits)), *more))
        pairs = MapType(key=Slot(nullable=False, type=TEXT), value=Slot(nullable=bits == 32, type=a_list(inner)))
        return schema(column("m", pairs))

    assert kinds(nested(32), nested(64, column("new"))) == [
        ("tightened", ("m", "value")),
        ("widened", ("m", "value", "element", "n")),
        ("added", ("m", "value", "element", "new")),
    ]


def test_two_columns_may_swap_their_names() -> None:
    old, new = schema(column("a"), column("b", integer(8))), schema(column("b"), column("a", integer(8)))
    renames = [Rename(path=("a",), to="b"), Rename(path=("b",), to="a")]
    assert kinds(old, new, *renames) == [("renamed", ("b",)), ("renamed", ("a",))]


def test_a_rename_is_also_compared_and_leaves_room_for_another() -> None:
    old, new = schema(column("a", integer(32))), schema(column("b", integer(64)), column("a"))
    found = kinds(old, new, Rename(path=("a",), to="b"))
    assert found == [("renamed", ("b",)), ("widened", ("b",)), ("added", ("a",))]


@pytest.mark.parametrize(
    "renames",
    [
        [Rename(path=("none",), to="b")],
        [Rename(path=("a",), to="none")],
        [Rename(path=("a",), to="a")],
        [Rename(path=("a", "x"), to="b")],
        [Rename(path=("a",), to="b"), Rename(path=("a",), to="c")],
        [Rename(path=("a",), to="c"), Rename(path=("z",), to="c")],
    ],
)
def test_a_rename_that_fits_nowhere_is_refused(renames: list[Rename]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        compare(schema(column("a"), column("z")), schema(column("b"), column("c")), renames)
    assert caught.value.code == ErrorCode.INPUT_RENAME
    with pytest.raises(RenameError):
        changes_between(schema(column("a"), column("z")), schema(column("b"), column("c")), renames)
