"""Equal records in other Parquet encodings, and unequal ones that encodings could hide."""

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from shardrel.errors import ErrorCode
from tests.support.cases.model import FileCase, parquet


def wide_text() -> FileCase:
    """Text and bytes under 32-bit, 64-bit and view offsets."""
    case = FileCase()
    texts = ["", "a", None, "é" * 30, "q" * 3000]
    raw = [text if text is None else text.encode() for text in texts]
    string_types = {"string": pa.string(), "large": pa.large_string(), "view": pa.string_view()}
    strings = [case.column(name, pa.array(texts, kind), row_group_size=2) for name, kind in string_types.items()]
    binary_types = {"binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view()}
    binaries = [case.column(name, pa.array(raw, kind)) for name, kind in binary_types.items()]
    case.same = [strings, binaries]
    case.differ = [[strings[0], binaries[0]]]
    return case


def dictionaries() -> FileCase:
    """One table with every choice of dictionary, page and row group that a writer has."""
    case = FileCase()
    words = [None if at % 13 == 0 else f"word-{at % 150}" + "." * (at % 30) for at in range(600)]
    plain = pa.array(words, pa.string())
    coded = plain.dictionary_encode()
    changed = pa.array(["other", *words[1:]])
    swapped = pa.array([words[1], words[0], *words[2:]])
    writings: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (plain, {"use_dictionary": False}),
        "dictionary": (plain, {"use_dictionary": True}),
        "fallback": (plain, {"dictionary_pagesize_limit": 1024, "data_page_size": 512}),
        "arrow_dictionary": (coded, {}),
        "small_indices": (coded.cast(pa.dictionary(pa.int16(), pa.string())), {}),
        "arrow_dictionary_plain_pages": (coded, {"use_dictionary": False}),
        "bare": (coded, {"store_schema": False}),
        "groups_of_7": (coded, {"row_group_size": 7}),
        "v2_zstd": (plain, {"data_page_version": "2.0", "compression": "zstd", "write_page_checksum": True}),
        "delta": (plain, {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "v": "DELTA_BYTE_ARRAY"}}),
        "page_index": (plain, {"write_page_index": True}),
        "chunks": (pa.chunked_array([plain.slice(at, 11) for at in range(0, 600, 11)]), {"compression": "none"}),
    }  # fmt: skip
    names = [case.column(name, values, **options) for name, (values, options) in writings.items()]
    case.same = [names]
    case.differ = [["plain.parquet", case.column("changed", changed), case.column("swapped", swapped)]]
    case.records = dict.fromkeys(names, 600)
    return case


def twin_names() -> FileCase:
    """Fields of one name, of names that differ by case, and a dotted name beside a nested field."""
    case = FileCase()
    three = [pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])]
    twins = pa.Table.from_arrays(three, names=["id", "value", "value"])
    inner = pa.StructArray.from_arrays([three[1], three[2]], fields=[pa.field("a", pa.int64())] * 2)
    case.add("twins.parquet", parquet(twins))
    case.add("twins_bare.parquet", parquet(twins, store_schema=False))
    case.add("twins_nested.parquet", parquet(pa.table({"id": three[0], "s": inner})))
    case.add("twins_in_list.parquet", parquet(pa.table({"l": pa.ListArray.from_arrays([0, 1, 2], inner)})))
    case.refused = dict.fromkeys(list(case.files), ErrorCode.SCHEMA_DUPLICATE_FIELD)
    case.records = {case.add("case_only.parquet", parquet(twins.rename_columns(["id", "Value", "value"]))): 2}
    dotted = case.add("dotted.parquet", parquet(pa.table({"s.a": [7]})))
    nested = case.add("nested.parquet", parquet(pa.table({"s": [{"a": 7}]})))
    case.differ = [[dotted, nested]]
    return case


def lists() -> FileCase:
    """Names and widths of lists do not matter; every state and every border of values does."""
    case = FileCase()
    values = [[1, 2], [], None, [3], [None, 4]]
    kinds = {
        "element": (pa.list_(pa.field("element", pa.int64())), {}),
        "item": (pa.list_(pa.field("item", pa.int64())), {"use_compliant_nested_type": False}),
        "odd": (pa.list_(pa.field("odd", pa.int64())), {"use_compliant_nested_type": False}),
        "large": (pa.large_list(pa.int64()), {}),
        "bare": (pa.list_(pa.int64()), {"store_schema": False}),
    }
    case.same = [[case.column(name, pa.array(values, kind), **options) for name, (kind, options) in kinds.items()]]
    numbers, texts = pa.list_(pa.int64()), pa.list_(pa.string())
    case.differ = [
        _states(case, "number", numbers, [None, [], [None], [0], [None, None]]),
        _states(case, "text", texts, [None, [], [None], [""]]),
        _states(case, "nested", pa.list_(numbers), [None, [], [[]], [None], [[None]], [[], []]]),
        _states(case, "struct", pa.struct([("a", pa.int64()), ("b", pa.string())]),
                [None, {"a": None, "b": None}, {"a": 0, "b": None}, {"a": None, "b": ""}]),
        [case.column("cut_1", pa.array([[1], [2, 3]])), case.column("cut_2", pa.array([[1, 2], [3]]))],
    ]  # fmt: skip
    for at, mark in enumerate(["", "\0", "\x1f", ",", "\t", "1:"]):
        left = pa.table({"a": ["x" + mark + "y"], "b": ["z"]})
        right = pa.table({"a": ["x"], "b": ["y" + mark + "z"]})
        case.differ.append([case.add(f"l{at}.parquet", parquet(left)), case.add(f"r{at}.parquet", parquet(right))])
    fixed = case.column("fixed", pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)))
    variable = case.column("variable", pa.array([[1, 2], [3, 4]], numbers))
    case.same.append([fixed, variable])
    case.other_schema = [[fixed, variable]]
    return case


def floats() -> FileCase:
    """NaN with its payload, both zeros and null are data, however they are encoded."""
    case = FileCase()
    nan, payload, negative, zero, minus = 0x7FF8 << 48, (0x7FF8 << 48) + 1, 0xFFF8 << 48, 0, 1 << 63
    mix = _doubles([nan, payload, minus, zero, nan])
    case.same = [[
        case.column("mix", mix), case.column("mix_plain", mix, use_dictionary=False),
        case.column("mix_bare", mix, write_statistics=False), case.column("mix_groups", mix, row_group_size=1),
        case.column("mix_split", mix, use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT"}),
    ]]  # fmt: skip
    singles = {"nan": nan, "payload": payload, "negative": negative, "zero": zero, "minus": minus}
    different = [case.column(name, _doubles([bits])) for name, bits in singles.items()]
    case.differ = [[*different, case.column("null", pa.array([None], pa.float64()))]]
    half = pa.array(np.array([0.5, np.nan, -0.0], np.float16))
    case.same.append([case.column("half", half), case.column("half_groups", half, row_group_size=1)])
    narrow = pa.array([0.1], pa.float32())
    case.differ.append([case.column("narrow", narrow), case.column("widened", narrow.cast(pa.float64()))])
    return case


def times() -> FileCase:
    """Zone spellings of UTC are one; a zone is a label; unit and lost digits are not; int96 is refused."""
    case = FileCase()
    ms = 1_600_000_000_456
    instants = {zone: pa.array([ms * 1000, None], pa.timestamp("us", zone)) for zone in ("UTC", "+00:00", "Etc/UTC")}
    utc = [case.column(f"utc{at}", values) for at, values in enumerate(instants.values())]
    utc.append(case.column("utc_bare", instants["UTC"], store_schema=False))
    zurich = case.column("zurich", pa.array([ms * 1000, None], pa.timestamp("us", "Europe/Zurich")))
    naive = case.column("naive", pa.array([ms * 1000, None], pa.timestamp("us")))
    case.same = [utc, [utc[0], zurich]]
    case.one_schema = [utc]
    case.other_schema = [[utc[0], zurich, naive]]
    factors = {"ms": 1, "us": 1000, "ns": 10**6}
    units = [case.column(unit, pa.array([ms * by], pa.timestamp(unit, "UTC"))) for unit, by in factors.items()]
    exact = pa.array([ms * 10**6 + 7], pa.timestamp("ns", "UTC"))
    cut = case.column("cut", exact, coerce_timestamps="us", allow_truncated_timestamps=True)
    case.differ = [[utc[0], naive], units, [case.column("exact", exact), cut]]
    far = pa.array([-(10**13) * 3, 0, 10**13 * 3], pa.timestamp("ms"))
    int96 = case.column("int96", far, use_deprecated_int96_timestamps=True, store_schema=False)
    case.refused = {int96: ErrorCode.SCHEMA_INT96}
    return case


def numbers() -> FileCase:
    """The physical form of a decimal does not matter, its scale does; integers are exact."""
    case = FileCase()
    amounts = [Decimal("12.34500"), None, Decimal("-0.00001"), Decimal("999.99999")]
    narrow = pa.array(amounts, pa.decimal128(8, 5))
    case.same = [[
        case.column("fixed", narrow), case.column("as_integer", narrow, store_decimal_as_integer=True),
        case.column("plain", narrow, use_dictionary=False), case.column("bare", narrow, store_schema=False),
        case.column("wide", pa.array(amounts, pa.decimal256(8, 5))),
    ]]  # fmt: skip
    unscaled = pa.array([1234500, None, -1, 99999999], pa.int32())
    coarse = pa.array([Decimal("1.5")], pa.decimal128(8, 1))
    case.differ = [
        ["fixed.parquet", case.column("unscaled", unscaled)],
        [case.column("coarse", coarse), case.column("fine", coarse.cast(pa.decimal128(8, 2)))],
        [case.column("big", pa.array([2**53 + 1, None])), case.column("near", pa.array([2**53, None]))],
        [case.column("top", pa.array([2**64 - 1], pa.uint64())), case.column("minus_one", pa.array([-1], pa.int64()))],
    ]
    return case


def labels() -> FileCase:
    """Labels of values enter the schema digest alone; metadata beside the data enters nothing."""
    case = FileCase()
    raw = pa.array([bytes(range(16)), None], pa.binary(16))
    unknown = pa.field("v", pa.binary(16), metadata={"ARROW:extension:name": "nobody.knows"})
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), raw)
    bare, uuid = case.column("bytes", raw), case.column("uuid", uuids)
    labelled = case.add("unknown.parquet", parquet(pa.table([raw], schema=pa.schema([unknown]))))
    alone = case.add("alone.parquet", parquet(pa.table({"v": raw})))
    case.same = [[bare, uuid], [labelled, alone]]
    case.other_schema = [[bare, uuid], [labelled, alone]]
    flat = pa.array([list(range(6))], pa.list_(pa.int32(), 6))
    shapes = [(2, 3), (3, 2)]
    tensors = [
        case.column(f"tensor{at}", pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), shape), flat))
        for at, shape in enumerate(shapes)
    ]
    case.other_schema.append(tensors)
    text = pa.array(["x", "y"])
    tables = {
        "plain": pa.schema([("t", pa.string())]),
        "tool": pa.schema([("t", pa.string())], metadata={"tool": "one"}),
        "field": pa.schema([pa.field("t", pa.string(), metadata={"PARQUET:field_id": "7", "note": "x"})]),
    }
    noted = [case.add(f"{name}.parquet", parquet(pa.table([text], schema=kind))) for name, kind in tables.items()]
    strict = pa.schema([pa.field("t", pa.string(), nullable=False)])
    required = case.add("required.parquet", parquet(pa.table([text], schema=strict)))
    case.same += [noted, [noted[0], required]]
    case.one_schema = [noted]
    case.other_schema.append([noted[0], required])
    return case


def _states(case: FileCase, name: str, kind: Any, states: list[Any]) -> list[str]:
    return [case.column(f"{name}{at}", pa.array([state], kind)) for at, state in enumerate(states)]


def _doubles(bits: list[int]) -> Any:
    data = pa.py_buffer(struct.pack(f"<{len(bits)}Q", *bits))
    return pa.Array.from_buffers(pa.float64(), len(bits), [None, data])
