"""Encoding vectors of ``fixtures/canonical/``: Arrow inputs described in JSON, and what they encode to.

A leaf array is ``{"type": [factory, *arguments], "values": [hex | null, …]}`` with the bytes of each
value as Arrow holds them (numbers little-endian). Other arrays name their parts; see ``build_array``.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

FOLDER = Path(__file__).parents[2] / "fixtures" / "canonical"

Described = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One input and what every encoder must make of it.

    Attributes:
        name: File and name, for messages.
        table: ``pa.Table`` of n rows.
        record_schema: The record schema's canonical JSON, as text.
        schema_digest: Written form.
        content_type: 32 bytes.
        encodings: Canonical encodings of the n records.
        content_digests: Their 32-byte digests.
        logical_digest: Written form, of all rows as one stream.
    """

    name: str
    table: Any
    record_schema: str
    schema_digest: str
    content_type: bytes
    encodings: list[bytes]
    content_digests: list[bytes]
    logical_digest: str


def load_vectors(folder: Path = FOLDER) -> list[Vector]:
    """All vectors, in order of file and place."""
    files = sorted(folder.glob("rows-*.json"))
    return [_vector(path.stem, one) for path in files for one in json.loads(path.read_text("utf-8"))["vectors"]]


def _vector(file: str, one: Described) -> Vector:
    return Vector(
        name=f"{file}:{one['name']}",
        table=build_table(one["columns"]),
        record_schema=one["recordSchema"],
        schema_digest=one["schemaDigest"],
        content_type=bytes.fromhex(one["contentType"]),
        encodings=[bytes.fromhex(row) for row in one["encodings"]],
        content_digests=[bytes.fromhex(row) for row in one["contentDigests"]],
        logical_digest=one["logicalDigest"],
    )


def build_table(columns: list[Described]) -> Any:
    """``pa.Table`` of described columns: a field and an array each."""
    arrays = [build_array(column["array"]) for column in columns]
    schema = [_field(column, array.type) for column, array in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(schema))


def build_array(described: Described) -> Any:
    """``pa.Array`` exactly as described, with what lies hidden under nulls."""
    kind = described["type"][0]
    builders = {
        "dictionary": _dictionary,
        "run_end_encoded": _runs,
        "struct": _struct,
        "map": _map,
        "list": _list,
        "large_list": _list,
        "fixed_size_list": _fixed_list,
        "list_view": _list_view,
        "large_list_view": _list_view,
    }
    return builders.get(kind, _leaf)(described)


def _field(described: Described, arrow: Any) -> Any:
    metadata = {key.encode(): value.encode() for key, value in described.get("metadata", {}).items()}
    return pa.field(described["name"], arrow, nullable=described.get("nullable", True), metadata=metadata or None)


def _leaf(described: Described) -> Any:
    name, *arguments = described["type"]
    arrow = getattr(pa, name)(*arguments)
    values = [None if value is None else bytes.fromhex(value) for value in described["values"]]
    if pa.types.is_null(arrow):
        return pa.nulls(len(values))
    if pa.types.is_boolean(arrow):
        return pa.array([None if value is None else value != b"\0" for value in values], arrow)
    if name in ("string", "large_string", "string_view"):
        return pa.array(values, pa.binary()).cast(arrow)
    if "binary" in name:
        return pa.array(values, arrow)
    return _numbers(arrow, values)


def _numbers(arrow: Any, values: list[bytes | None]) -> Any:
    width = arrow.bit_width // 8
    data = b"".join(value or b"\xaa" * width for value in values)
    return pa.Array.from_buffers(arrow, len(values), [_bits([v is not None for v in values]), pa.py_buffer(data)])


def _bits(valid: list[Any]) -> Any:
    return pa.py_buffer(np.packbits(np.array(valid, bool), bitorder="little"))


def _mask(described: Described) -> Any:
    return pa.array([not valid for valid in described["valid"]], pa.bool_())


def _dictionary(described: Described) -> Any:
    indices = pa.array(described["indices"], pa.int8())
    return pa.DictionaryArray.from_arrays(indices, build_array(described["dictionary"]))


def _runs(described: Described) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array(described["ends"], pa.int32()), build_array(described["values"]))


def _struct(described: Described) -> Any:
    children = [build_array(child["array"]) for child in described["fields"]]
    fields = [_field(child, array.type) for child, array in zip(described["fields"], children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(described))


def _map(described: Described) -> Any:
    keys, items = build_array(described["keys"]), build_array(described["items"])
    return pa.MapArray.from_arrays(pa.array(described["offsets"], pa.int32()), keys, items, mask=_mask(described))


def _element(described: Described, arrow: Any) -> Any:
    return _field({"name": "item", **described.get("element", {})}, arrow)


def _list(described: Described) -> Any:
    child = build_array(described["child"])
    large = described["type"][0] == "large_list"
    arrow = (pa.large_list if large else pa.list_)(_element(described, child.type))
    offsets = np.array(described["offsets"], np.int64 if large else np.int32)
    buffers = [_bits(described["valid"]), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(arrow, len(described["valid"]), buffers, children=[child])


def _fixed_list(described: Described) -> Any:
    child = build_array(described["child"])
    arrow = pa.list_(_element(described, child.type), described["type"][1])
    return pa.Array.from_buffers(arrow, len(described["valid"]), [_bits(described["valid"])], children=[child])


def _list_view(described: Described) -> Any:
    child = build_array(described["child"])
    large = described["type"][0] == "large_list_view"
    make = pa.LargeListViewArray if large else pa.ListViewArray
    width = pa.int64() if large else pa.int32()
    offsets, sizes = pa.array(described["offsets"], width), pa.array(described["sizes"], width)
    return make.from_arrays(offsets, sizes, child, mask=_mask(described))
