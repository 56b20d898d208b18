"""Arrow schemas as record schemas: what is refused, what is one, and schemas that others wrote."""

from typing import Any

import pyarrow as pa
import pytest

from shardrel.canonical import json
from shardrel.canonical.schema import record_schema as publishers_schema
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records import schema as rs
from verifier.physical import fits, physical_type
from verifier.schema import MAX_DEPTH, content_type, is_sound, record_schema

INT = rs.IntType(bits=8, signed=True)


def of(kind: Any, **options: Any) -> rs.RecordSchema:
    """Record schema of one column."""
    return record_schema(pa.schema([pa.field("c", kind, **options)]))


def nested(levels: int) -> Any:
    """A list of lists."""
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.month_day_nano_interval(),
        pa.sparse_union([pa.field("a", pa.int8())]),
        pa.list_(pa.dense_union([pa.field("a", pa.int8())])),
        nested(MAX_DEPTH + 1),
    ],
)
def test_refused_types(kind: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        of(kind)
    assert caught.value.code == ErrorCode.SCHEMA_UNSUPPORTED


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("a", pa.int8()), ("a", pa.int8())]),
        pa.schema([("s", pa.struct([("a", pa.int8()), ("a", pa.int16())]))]),
    ],
)
def test_a_name_twice_is_refused(schema: pa.Schema) -> None:
    with pytest.raises(InvalidInputError) as caught:
        record_schema(schema)
    assert caught.value.code == ErrorCode.SCHEMA_DUPLICATE_FIELD


def test_names_that_differ_by_case_or_by_a_dot_are_two() -> None:
    kinds = [("a", pa.int8()), ("A", pa.int8()), ("s", pa.struct([("a", pa.int8())])), ("s.a", pa.int8())]
    assert len(record_schema(pa.schema(kinds)).fields) == 4


def test_labels_enter_the_schema_and_not_the_content_type() -> None:
    plain = of(pa.list_(pa.int8()))
    assert of(pa.list_(pa.int8(), 2)) != plain
    assert content_type(of(pa.list_(pa.int8(), 2))) == content_type(plain)
    assert content_type(of(pa.list_(pa.int8()), nullable=False)) == content_type(plain)
    assert content_type(of(pa.uuid())) == content_type(of(pa.binary(16)))
    zurich, utc, wall = (of(pa.timestamp("us", zone)) for zone in ("Europe/Zurich", "Zulu", None))
    assert zurich != utc
    assert content_type(zurich) == content_type(utc) != content_type(wall)


def test_an_extension_is_read_from_the_type_and_from_the_metadata() -> None:
    registered = of(pa.uuid())
    declared = of(pa.binary(16), metadata={"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""})
    assert registered == declared
    assert registered.fields[0].extension == rs.Extension(name="arrow.uuid", parameters="")
    assert of(pa.binary(16), metadata={"anything": "else"}) == of(pa.binary(16))


class Labelled(pa.ExtensionType):  # type: ignore[misc]
    """An extension with parameters over any storage."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage, "test.labelled")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"parameters"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> "Labelled":
        return cls(storage)


# Held here: pyarrow keeps only a weak reference to a type that Python defined.
LABELLED = [Labelled(pa.string()), Labelled(pa.dictionary(pa.int8(), pa.string())), Labelled(pa.list_(pa.uuid()))]
UUID = pa.dictionary(pa.int8(), pa.uuid())


@pytest.mark.parametrize(
    "field",
    [
        pa.field("c", UUID),
        pa.field("c", pa.run_end_encoded(pa.int32(), pa.uuid())),
        pa.field("c", pa.run_end_encoded(pa.int32(), UUID)),
        pa.field("c", pa.list_(UUID)),
        pa.field("c", pa.struct([pa.field("a", UUID, nullable=False)])),
        pa.field("c", pa.map_(pa.string(), UUID)),
        pa.field("c", pa.dictionary(pa.int8(), LABELLED[0])),
        pa.field("c", LABELLED[1]),
        pa.field("c", LABELLED[2]),
        pa.field("c", UUID, metadata={"ARROW:extension:name": "another"}),
        pa.field("c", pa.uuid(), metadata={"ARROW:extension:name": "another", "ARROW:extension:metadata": "x"}),
        pa.field("c", pa.string(), metadata={"ARROW:extension:name": "mine", "ARROW:extension:metadata": "x"}),
    ],
    ids=str,
)
def test_both_readings_find_the_same_extensions(field: pa.Field) -> None:
    schema = pa.schema([field])
    read = record_schema(schema)
    assert read == publishers_schema(schema)
    assert b'"extension":{"name"' in json.encode(read)


@pytest.mark.parametrize("storage", [UUID, pa.run_end_encoded(pa.int32(), pa.uuid()), pa.uuid()], ids=str)
def test_an_extension_over_an_extension_is_refused_by_both(storage: Any) -> None:
    twice = Labelled(storage)
    for read in (record_schema, publishers_schema):
        with pytest.raises(InvalidInputError) as caught:
            read(pa.schema([pa.field("c", twice)]))
        assert caught.value.code == ErrorCode.SCHEMA_UNSUPPORTED


def slot(kind: rs.LogicalType, nullable: bool = True) -> rs.Slot:
    """A place for values."""
    return rs.Slot(nullable=nullable, type=kind)


@pytest.mark.parametrize(
    "kind",
    [
        rs.MapType(key=slot(INT), value=slot(INT)),
        rs.ListType(element=slot(rs.NullType(), nullable=False), size=None),
        rs.StructType(fields=(rs.Field(name="a", nullable=True, type=INT),) * 2),
        rs.TimestampType(unit="ms", zone="Etc/UTC"),
        rs.TimestampType(unit="ms", zone=""),
    ],
)
def test_schemas_that_no_arrow_schema_gives_are_not_sound(kind: rs.LogicalType) -> None:
    assert not is_sound(rs.RecordSchema(fields=(rs.Field(name="c", nullable=True, type=kind),)))


def test_a_column_that_passes_for_one_of_the_tuple_is_not_sound() -> None:
    fields = [rs.Field(name=name, nullable=True, type=INT) for name in ("_shardrel_split", "shardrel_split")]
    assert not is_sound(rs.RecordSchema(fields=(fields[0],)))
    assert is_sound(rs.RecordSchema(fields=(fields[1],)))


@pytest.mark.parametrize("zone", [None, "UTC", "Z", "Zulu", "Europe/Paris", "+02:00"])
def test_what_arrow_gives_is_sound_whatever_the_zone(zone: str | None) -> None:
    assert is_sound(of(pa.timestamp("us", zone)))


def test_depth_is_bounded_in_schemas_of_others_too() -> None:
    assert is_sound(of(nested(MAX_DEPTH)))
    deeper = rs.ListType(element=slot(of(nested(MAX_DEPTH)).fields[0].type), size=None)
    assert not is_sound(rs.RecordSchema(fields=(rs.Field(name="c", nullable=True, type=deeper),)))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.list_(pa.int8(), 2), [[1, 2], None], [[1, 2], [1]]),
        (pa.list_(pa.list_(pa.int8(), 1)), [[[1]], [], None], [[[1], [1, 2]]]),
        (pa.struct([("x", pa.list_(pa.int8(), 1))]), [{"x": [1]}, None], [{"x": []}]),
        (pa.map_(pa.string(), pa.list_(pa.int8(), 1)), [[("k", [1])]], [[("k", [1, 2])]]),
        (pa.binary(0), [b"", None], [b"x"]),
    ],
)
def test_values_that_only_the_physical_type_allows(kind: Any, good: list[Any], bad: list[Any]) -> None:
    logical = of(kind).fields[0].type
    physical = physical_type(logical)
    assert fits(logical, pa.array(good, physical))
    assert not fits(logical, pa.array(bad, physical))
