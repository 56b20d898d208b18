"""Files that are cut, padded, glued or flipped, and odd ones that are sound."""

import functools
import io
import json
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.errors import ErrorCode
from tests.support.cases.model import FileCase, parquet

_SKIPPABLE = struct.pack("<II", 0x184D2A5F, 3) + b"abc"


@functools.cache
def parquet_files() -> FileCase:
    """Parquet: what a storage fault or a broken copy leaves, and legal shapes that readers trip over."""
    case = FileCase()
    good, other = numbers(range(80)), numbers(range(500, 580))
    cut, damaged = ErrorCode.INPUT_TRUNCATED, ErrorCode.INPUT_CORRUPT
    broken: dict[str, tuple[bytes, ErrorCode]] = {
        "last_byte_missing": (good[:-1], cut),
        "half": (good[: len(good) // 2], cut),
        "magic_only": (b"PAR1", cut),
        "empty": (b"", ErrorCode.INPUT_EMPTY_FILE),
        "padded": (good + bytes(32), damaged),
        "footer_too_long": (good[:-8] + struct.pack("<I", 1 << 30) + b"PAR1", damaged),
        "footer_of_nothing": (good[:-8] + bytes(4) + b"PAR1", damaged),
        "error_page": (b"<html><body>503 Service Unavailable</body></html>\n", damaged),
        "glued": (good + other, damaged),
        "flipped_under_checksum": (_flipped(numbers(range(80), write_page_checksum=True)), damaged),
    }
    for name, (data, code) in broken.items():
        case.refused[case.add(name + ".parquet", data)] = code
    # Without a page checksum only a digest that somebody kept can tell.
    flipped = case.add("flipped.parquet", _flipped(good))
    case.differ = [[case.add("good.parquet", good), flipped]]
    inner = case.add("empty_group_inside.parquet", groups([[1, 2], [], [3]]))
    case.same = [[inner, case.add("three.parquet", numbers([1, 2, 3]))]]
    many = case.add("row_groups_32769.parquet", groups([[at] for at in range(32_769)]))
    none = case.add("no_rows.parquet", numbers([]))
    case.records = {"good.parquet": 80, inner: 3, many: 32_769, none: 0}
    return case


def json_frames() -> FileCase:
    """JSON Lines in zstd frames and gzip members, whole and broken."""
    case = FileCase()
    lines = [json.dumps({"id": f"r{at}", "text": "t" * (at % 7)}).encode() + b"\n" for at in range(20)]
    for kind, suffix in (("zstd", "zst"), ("gzip", "gz")):
        _add_frames(case, lines, pa.Codec(kind), suffix)
    whole = b"".join(lines)
    case.add("plain.jsonl", whole)
    case.same = [[name for name in case.files if name not in case.refused]]
    case.records = dict.fromkeys(case.same[0], 20)
    codec = pa.Codec("zstd")
    case.records[case.add("prefix.jsonl.zst", codec.compress(whole[: whole.index(b"r5") - 8], asbytes=True))] = 5
    return case


def _add_frames(case: FileCase, lines: list[bytes], codec: Any, suffix: str) -> None:
    def frame(data: bytes) -> bytes:
        return bytes(codec.compress(data, asbytes=True))

    whole = b"".join(lines)
    one, head, tail = frame(whole), frame(b"".join(lines[:8])), frame(b"".join(lines[8:]))
    skippable = _SKIPPABLE if suffix == "zst" else b""
    sound = {
        "one": one,
        "two": head + tail,
        "inside_line": frame(whole[:33]) + frame(whole[33:]),
        "frame_a_line": b"".join(frame(line) for line in lines),
        "skipped": head + skippable + tail,
        "empty_inside": head + frame(b"") + tail,
        "no_last_newline": frame(whole[:-1]),
    }
    broken = {
        "cut": ((head + tail)[:-3], ErrorCode.INPUT_TRUNCATED),
        "cut_at_start": (head + tail[:9], ErrorCode.INPUT_TRUNCATED),
        "garbage_behind": (one + b"garbage", ErrorCode.INPUT_CORRUPT),
        "zeros_behind": (one + bytes(64), ErrorCode.INPUT_CORRUPT),
        "not_compressed": (whole, ErrorCode.INPUT_CORRUPT),
        "other_magic": (b"\x28\x1f\x8b\xb5" + one, ErrorCode.INPUT_CORRUPT),
        "empty": (b"", ErrorCode.INPUT_EMPTY_FILE),
    }
    for name, data in sound.items():
        case.add(f"{name}.jsonl.{suffix}", data)
    for name, (data, code) in broken.items():
        case.refused[case.add(f"{name}.jsonl.{suffix}", data)] = code


def arrow_files() -> FileCase:
    """Arrow IPC as file and as stream, whole and broken."""
    case = FileCase()
    table = pa.table({"n": [1, 2, 3], "s": ["x", None, "y"], "d": pa.array(["u", "v", "u"]).dictionary_encode()})
    file, stream = ipc_file(table), ipc_stream(table)
    zstd = ipc_file(table, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    sound = {"file.arrow": file, "stream.arrow": stream, "feather.feather": zstd, "plain.parquet": parquet(table)}
    cut, damaged = ErrorCode.INPUT_TRUNCATED, ErrorCode.INPUT_CORRUPT
    broken = {
        "file_cut": (file[:-1], cut),
        "file_half": (file[: len(file) // 2], cut),
        "file_glued": (file + file, damaged),
        "stream_without_mark": (stream[:-8], cut),
        "stream_half": (stream[: len(stream) // 2], cut),
        "stream_glued": (stream + stream, damaged),
        "stream_padded": (stream + bytes(8), damaged),
        "error_page": (b"<html><body>403 Forbidden</body></html>", damaged),
        "empty": (b"", ErrorCode.INPUT_EMPTY_FILE),
        "feather_1": (b"FEA1" + bytes(64), ErrorCode.INPUT_UNKNOWN_FORMAT),
    }
    case.same = [[case.add(name, data) for name, data in sound.items()]]
    for name, (data, code) in broken.items():
        case.refused[case.add(name + ".arrow", data)] = code
    case.records = {**dict.fromkeys(sound, 3), case.add("no_rows.arrow", ipc_stream(table.slice(0, 0))): 0}
    return case


def numbers(values: Any, **options: Any) -> bytes:
    """A Parquet file of one column of plain 64-bit integers."""
    column = pa.array(values, pa.int64())
    return parquet(pa.table({"n": column}), **{"compression": "none", "use_dictionary": False, **options})


def groups(values: list[list[int]]) -> bytes:
    """A Parquet file with these row groups."""
    sink = io.BytesIO()
    schema = pa.schema([("n", pa.int64())])
    with pq.ParquetWriter(sink, schema, write_statistics=False) as writer:
        for group in values:
            writer.write_table(pa.table({"n": pa.array(group, pa.int64())}))
    return sink.getvalue()


def ipc_file(table: Any, **options: Any) -> bytes:
    """Arrow IPC file bytes with two rows a batch."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def ipc_stream(table: Any) -> bytes:
    """Arrow IPC stream bytes with two rows a batch."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def _flipped(data: bytes) -> bytes:
    at = data.index(struct.pack("<q", 50))
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
