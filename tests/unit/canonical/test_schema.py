"""Record schemas: what is one type, what is another, what is refused, and how files agree."""

import io
from typing import Any

import pyarrow as pa
import pytest

from shardrel.canonical import json
from shardrel.canonical.schema import content_type, logical_arrow_type, record_schema, schema_digest, unify
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.schema import Extension, RecordSchema
from tests.support.tables import LEAVES
from verifier.schema import record_schema as verifiers_schema


def of(*fields: Any) -> RecordSchema:
    return record_schema(pa.schema(list(fields)))


def one(arrow: Any, **more: Any) -> RecordSchema:
    return of(pa.field("x", arrow, **more))


CLOTHES = {
    "string": [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())],
    "binary": [pa.binary(), pa.large_binary(), pa.binary_view(), pa.run_end_encoded(pa.int16(), pa.binary())],
    "list": [
        pa.list_(pa.int8()),
        pa.list_(pa.field("element", pa.int8())),
        pa.large_list(pa.int8()),
        pa.list_view(pa.int8()),
        pa.large_list_view(pa.dictionary(pa.int8(), pa.int8())),
    ],
    "decimal": [pa.decimal32(5, 2), pa.decimal64(5, 2), pa.decimal128(5, 2), pa.decimal256(5, 2)],
    "zone": [pa.timestamp("us", z) for z in ("UTC", "+00:00", "Z", "Etc/UTC", "Zulu", "Universal", "Etc/UCT")],
    "map": [pa.map_(pa.string(), pa.int8()), pa.map_(pa.large_string(), pa.int8(), keys_sorted=True)],
}


@pytest.mark.parametrize("kinds", CLOTHES.values(), ids=CLOTHES.keys())
def test_clothes_of_one_logical_type_have_one_schema(kinds: list[Any]) -> None:
    assert len({schema_digest(one(kind)) for kind in kinds}) == 1


def test_different_logical_types_have_different_schemas_and_content_types() -> None:
    kinds = [*LEAVES, pa.list_(pa.int8()), pa.list_(pa.int16()), pa.struct([("a", pa.int8())])]
    kinds += [pa.struct([("b", pa.int8())]), pa.map_(pa.int8(), pa.int8()), pa.list_(pa.list_(pa.int8()))]
    kinds += [pa.timestamp("us"), pa.decimal128(5, 3), pa.decimal128(6, 2)]
    assert len({schema_digest(one(kind)) for kind in kinds}) == len(kinds)
    assert len({content_type(one(kind)) for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (one(pa.int8()), one(pa.int8(), nullable=False)),
        (one(pa.list_(pa.int8(), 6)), one(pa.list_(pa.int8()))),
        (one(pa.list_(pa.int8())), one(pa.list_(pa.field("item", pa.int8(), nullable=False)))),
        (one(pa.uuid()), one(pa.binary(16))),
        (one(pa.fixed_shape_tensor(pa.int8(), [2, 3])), one(pa.fixed_shape_tensor(pa.int8(), [3, 2]))),
        (one(pa.timestamp("ms", "Asia/Tokyo")), one(pa.timestamp("ms", "UTC"))),
    ],
)
def test_labels_are_in_the_schema_and_not_in_the_content_type(left: RecordSchema, right: RecordSchema) -> None:
    assert schema_digest(left) != schema_digest(right)
    assert content_type(left) == content_type(right)


def test_naive_time_and_an_instant_have_different_content_types() -> None:
    assert content_type(one(pa.timestamp("ms"))) != content_type(one(pa.timestamp("ms", "UTC")))


def test_column_order_and_case_matter() -> None:
    a, b, upper = pa.field("a", pa.int8()), pa.field("b", pa.int8()), pa.field("A", pa.int8())
    assert len({schema_digest(of(*fields)) for fields in ([a, b], [b, a], [a, upper], [upper, a])}) == 4


def test_a_registered_extension_and_its_metadata_are_one() -> None:
    for kind in (pa.uuid(), pa.fixed_shape_tensor(pa.int8(), [2, 3]), pa.json_()):
        schema = one(kind)
        extension = schema.fields[0].extension
        assert extension is not None
        metadata = {
            "ARROW:extension:name": extension.name,
            "ARROW:extension:metadata": bytes.fromhex(extension.parameters),
        }
        assert one(kind.storage_type, metadata=metadata) == schema
    assert one(pa.uuid()).fields[0].extension == Extension(name="arrow.uuid", parameters="")


def test_an_extension_inside_a_list_and_under_a_dictionary_is_seen() -> None:
    inner = record_schema(pa.schema([("x", pa.list_(pa.uuid()))])).fields[0].type
    assert inner.element.extension.name == "arrow.uuid"  # type: ignore[union-attr]


def test_other_metadata_is_not_part_of_the_schema() -> None:
    plain = pa.schema([pa.field("x", pa.int8())])
    noisy = pa.schema([pa.field("x", pa.int8(), metadata={"k": "v"})], metadata={"pandas": "{}"})
    assert record_schema(plain) == record_schema(noisy)


def nested(levels: int) -> Any:
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.struct([("x", kind)])
    return kind


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.month_day_nano_interval(), "x"),
        (pa.dense_union([pa.field("a", pa.int8())]), "x"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "x"),
        (pa.struct([]), "x"),
        (pa.list_(pa.struct([("s", pa.struct([]))])), "x[].s"),
        (pa.map_(pa.string(), pa.month_day_nano_interval()), "x.value"),
        (pa.decimal128(5, 77), "x"),
        (pa.opaque(pa.uuid(), "a", "b"), "x"),
        (nested(65), ".".join("x" * 66)),
    ],
)
def test_types_that_are_not_supported_are_refused_with_their_path(kind: Any, column: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        one(kind)
    assert refused.value.code == ErrorCode.SCHEMA_UNSUPPORTED
    assert refused.value.context["column"] == column


def test_clothes_are_no_level_of_nesting() -> None:
    worn = pa.dictionary(pa.int8(), pa.run_end_encoded(pa.int32(), nested(64)))
    assert one(worn) == one(nested(64))


def test_an_extension_in_a_dictionary_is_still_one() -> None:
    assert one(pa.dictionary(pa.int8(), pa.uuid())) == one(pa.uuid())


def test_the_deepest_schema_has_canonical_bytes() -> None:
    schema = one(nested(64))
    assert json.decode(json.encode(schema), RecordSchema) == schema


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "a"),
        (pa.schema([("s", pa.struct([("b", pa.int8()), ("b", pa.string())]))]), "s.b"),
    ],
)
def test_two_fields_of_one_name_are_refused(schema: Any, column: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        record_schema(schema)
    assert refused.value.code == ErrorCode.SCHEMA_DUPLICATE_FIELD
    assert refused.value.context["column"] == column


def test_files_agree_on_nullability_at_every_level() -> None:
    strict = pa.struct([pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False)), nullable=False)])
    loose = pa.struct([pa.field("l", pa.list_(pa.int8()))])
    both = unify([one(strict, nullable=False), one(loose, nullable=False), one(strict)])
    assert both == one(loose)
    assert unify([one(strict)]) == one(strict)


@pytest.mark.parametrize(
    ("left", "right", "column"),
    [
        (of(("a", pa.int8())), of(("a", pa.int16())), "a"),
        (of(("a", pa.int8()), ("b", pa.int8())), of(("b", pa.int8()), ("a", pa.int8())), "a"),
        (of(("a", pa.int8())), of(("a", pa.int8()), ("b", pa.int8())), "b"),
        (of(("a", pa.int8()), ("b", pa.int8())), of(("a", pa.int8())), "b"),
        (one(pa.decimal128(7, 2)), one(pa.decimal128(8, 2)), "x"),
        (one(pa.uuid()), one(pa.binary(16)), "x"),
        (one(pa.struct([("y", pa.list_(pa.int8()))])), one(pa.struct([("y", pa.list_(pa.int16()))])), "x.y[]"),
        (one(pa.list_(pa.int8(), 2)), one(pa.list_(pa.int8(), 3)), "x"),
    ],
)
def test_files_that_differ_in_more_are_a_conflict(left: RecordSchema, right: RecordSchema, column: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        unify([left, right])
    assert refused.value.code == ErrorCode.SCHEMA_CONFLICT
    assert refused.value.context["column"] == column


@pytest.mark.parametrize(
    "kind", [*LEAVES, pa.list_(pa.int8(), 3), pa.map_(pa.string(), pa.list_(pa.date64()))], ids=str
)
def test_the_logical_arrow_type_says_all_that_the_logical_type_says(kind: Any) -> None:
    schema = one(kind)
    assert one(logical_arrow_type(schema.fields[0])) == schema


def test_a_time_zone_that_is_not_utf8_is_refused() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("t", pa.list_(pa.timestamp("ns", "Europe/Zurich")))])):
        pass
    damaged = pa.ipc.open_stream(sink.getvalue().replace(b"Europe/Zurich", b"Europe/\xffurich")).schema
    for read in (record_schema, verifiers_schema):
        with pytest.raises(InvalidInputError) as refusal:
            read(damaged)
        assert refusal.value.code == ErrorCode.SCHEMA_UNSUPPORTED
