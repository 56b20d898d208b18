"""A slow, obvious encoder: one value at a time, straight from schemas/SPEC.md#record-encoding.

It shares nothing with the encoders of the product, so that agreement means something.
"""

import decimal
import hashlib
import json
import struct
from typing import Any

import pyarrow as pa
import pyarrow.types as at

_UTC = ("UTC", "Etc/UTC", "+00:00", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal", "Etc/Universal")


def logical_type(arrow: Any) -> dict[str, Any]:
    """The content type's view of an Arrow type: nullable everywhere, no extensions, no sizes, zones as UTC."""
    if isinstance(arrow, pa.BaseExtensionType):
        return logical_type(arrow.storage_type)
    if at.is_dictionary(arrow) or at.is_run_end_encoded(arrow):
        return logical_type(arrow.value_type)
    if at.is_boolean(arrow):
        return {"kind": "bool"}
    if at.is_integer(arrow):
        return {"kind": "int", "bits": arrow.bit_width, "signed": str(arrow).startswith("int")}
    if at.is_floating(arrow):
        return {"kind": "float", "bits": arrow.bit_width}
    if at.is_decimal(arrow):
        return {"kind": "decimal", "precision": arrow.precision, "scale": arrow.scale}
    if at.is_date(arrow):
        return {"kind": "date", "unit": "day" if at.is_date32(arrow) else "ms"}
    if at.is_time(arrow):
        return {"kind": "time", "unit": arrow.unit}
    if at.is_timestamp(arrow):
        return {"kind": "timestamp", "unit": arrow.unit, "zone": "UTC" if arrow.tz else None}
    if at.is_duration(arrow):
        return {"kind": "duration", "unit": arrow.unit}
    if at.is_fixed_size_binary(arrow):
        return {"kind": "fixed-binary", "size": arrow.byte_width}
    if at.is_struct(arrow):
        return {"kind": "struct", "fields": [_named(arrow.field(i)) for i in range(arrow.num_fields)]}
    if at.is_map(arrow):
        return {"kind": "map", "key": _slot(arrow.key_type), "value": _slot(arrow.item_type)}
    if at.is_nested(arrow):
        return {"kind": "list", "element": _slot(arrow.value_type), "size": None}
    words = {"null": "null", "string": "string", "large_string": "string", "string_view": "string"}
    return {"kind": words.get(str(arrow), "binary")}


def content_type(schema: Any) -> bytes:
    """``contentType`` of a ``pa.Schema``."""
    fields = [_named(field) for field in schema]
    value = {"schema": "training.shard.record-schema.v1", "fields": fields}
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(b"shardrel/type\0\0\0" + text.encode()).digest()


def encodings(table: Any) -> list[bytes]:
    """Canonical encoding of each row of a ``pa.Table``."""
    prefix = content_type(table.schema)
    columns = [[chunk for chunk in column.chunks if len(chunk)] for column in table.columns]
    cells = [[cell(chunk, i) for chunk in chunks for i in range(len(chunk))] for chunks in columns]
    return [prefix + b"".join(column[row] for column in cells) for row in range(table.num_rows)]


def content_digests(table: Any) -> list[bytes]:
    """``logicalContentDigest`` of each row."""
    return [hashlib.sha256(b"shardrel/record\0" + row).digest() for row in encodings(table)]


def logical_digest(table: Any) -> str:
    """``logicalDigest`` of the rows as one stream."""
    digests = content_digests(table)
    stream = content_type(table.schema) + struct.pack("<Q", len(digests)) + b"".join(digests)
    return "sha256:" + hashlib.sha256(b"shardrel/stream\0" + stream).hexdigest()


def cell(array: Any, row: int) -> bytes:
    """``cell(T, value)`` of one row of an array in any clothing."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return cell(array.storage, row)
    if at.is_dictionary(arrow):
        index = array.indices[row].as_py()
        return b"\x00" if index is None else cell(array.dictionary, index)
    if at.is_run_end_encoded(arrow):
        ends = array.run_ends.to_pylist()
        return cell(array.values, next(run for run, end in enumerate(ends) if array.offset + row < end))
    if at.is_null(arrow) or not array.is_valid()[row].as_py():
        return b"\x00"
    return b"\x01" + body(array, row)


def body(array: Any, row: int) -> bytes:
    """``body(T, value)`` of one row that is not null, of an array without dictionary, runs or extension."""
    arrow = array.type
    if at.is_struct(arrow):
        return b"".join(cell(array.field(i), row) for i in range(arrow.num_fields))
    if at.is_map(arrow):
        start, end = _span(array, row)
        pairs = [cell(array.keys, i) + cell(array.items, i) for i in range(start, end)]
        return struct.pack("<Q", len(pairs)) + b"".join(pairs)
    if at.is_nested(arrow):
        start, end = _span(array, row)
        return struct.pack("<Q", end - start) + elements(array.values.slice(start, end - start))
    width = fixed_width(arrow)
    if width is None:
        data: bytes = array[row].as_buffer().to_pybytes()
        return struct.pack("<Q", len(data)) + data
    return fixed_body(array, row, width)


def elements(values: Any) -> bytes:
    """``elements(T', values)`` of one list."""
    count, arrow = len(values), logical_storage(values.type)
    width = fixed_width(arrow)
    cells = [cell(values, i) for i in range(count)]
    if not width:
        return b"".join(cells)
    if count == 0:
        return b""
    if all(one[0] == 1 for one in cells):
        return b"\x00" + b"".join(one[1:] for one in cells)
    marks = bytes(one[0] for one in cells)
    return b"\x01" + marks + b"".join(one[1:] if one[0] else bytes(width) for one in cells)


def fixed_width(arrow: Any) -> int | None:
    """Bytes of a fixed-width body, None for another type."""
    if at.is_boolean(arrow):
        return 1
    if at.is_decimal(arrow):
        return 16 if arrow.precision <= 38 else 32
    if at.is_fixed_size_binary(arrow):
        return int(arrow.byte_width)
    return arrow.bit_width // 8 if at.is_primitive(arrow) and not at.is_null(arrow) else None


def fixed_body(array: Any, row: int, width: int) -> bytes:
    """The body of a fixed-width value; floats and times by the bits that lie in the buffer."""
    arrow = array.type
    if at.is_boolean(arrow):
        return bytes([array[row].as_py()])
    if at.is_decimal(arrow):
        with decimal.localcontext(prec=200):
            unscaled = int(array[row].as_py().scaleb(arrow.scale))
        return unscaled.to_bytes(width, "little", signed=True)
    start = (array.offset + row) * width
    return bytes(array.buffers()[1].to_pybytes()[start : start + width]) if width else b""


def logical_storage(arrow: Any) -> Any:
    """The type under extensions, dictionaries and runs."""
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        elif at.is_dictionary(arrow) or at.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        else:
            return arrow


def _span(array: Any, row: int) -> tuple[int, int]:
    """First and past-the-last element of one row of a list or map."""
    arrow, at_row = array.type, array.offset + row
    if at.is_fixed_size_list(arrow):
        return at_row * arrow.list_size, (at_row + 1) * arrow.list_size
    form, width = ("<q", 8) if at.is_large_list(arrow) or at.is_large_list_view(arrow) else ("<i", 4)
    (start,) = struct.unpack_from(form, array.buffers()[1].to_pybytes(), at_row * width)
    if at.is_list_view(arrow) or at.is_large_list_view(arrow):
        (size,) = struct.unpack_from(form, array.buffers()[2].to_pybytes(), at_row * width)
        return start, start + size
    (end,) = struct.unpack_from(form, array.buffers()[1].to_pybytes(), (at_row + 1) * width)
    return start, end


def _slot(arrow: Any) -> dict[str, Any]:
    return {"nullable": True, "type": logical_type(arrow), "extension": None}


def _named(field: Any) -> dict[str, Any]:
    return {"name": field.name, **_slot(field.type)}
