"""Records and releases that broke other tools: two readings of one text, odd values, doubled names, unlisted files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from publisher.digest import digest_file
from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, FormatError
from shardrel.gate.view import read_gate
from shardrel.records.release import Release
from shardrel.records.snapshot import Columns, Snapshot
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, put_record
from tests.support.publishing import Publishing, write_source
from tests.support.release_builder import Built, a_release, a_world, codes
from verifier.verify import verify_release


def the_records() -> dict[str, tuple[bytes, Any]]:
    """Bytes of a real snapshot and of a real root."""
    built = a_release()
    snapshot = built.release.dataset_snapshot
    return {
        "snapshot": (get_by_digest(built.store, snapshot), Snapshot),
        "root": (get_by_digest(built.store, built.root), Release),
    }


READINGS: dict[str, tuple[str, bytes, bytes]] = {
    "a nested key twice": ("snapshot", b'"columns":{"id":', b'"columns":{"id":"x","id":'),
    "a nested key twice, once with an escape": ("snapshot", b'"columns":{"id":', b'"columns":{"i\\u0064":"x","id":'),
    "a nested key of another case": ("snapshot", b'"columns":{"id":', b'"columns":{"ID":"x","id":'),
    "an unknown nested key": ("snapshot", b'"columns":{"id":', b'"columns":{"a":1,"id":'),
    "a point where a count is due": ("root", b'"benchmarkFence":0', b'"benchmarkFence":0.0'),
    "an exponent where a count is due": ("root", b'"benchmarkFence":0', b'"benchmarkFence":0e0'),
    "minus zero": ("root", b'"benchmarkFence":0', b'"benchmarkFence":-0'),
    "a number of 1e-7": ("root", b'"benchmarkFence":0', b'"benchmarkFence":1e-7'),
    "a number of 1e21": ("root", b'"benchmarkFence":0', b'"benchmarkFence":1e21'),
    "2^53 + 1": ("root", b'"benchmarkFence":0', b'"benchmarkFence":9007199254740993'),
    "true where a count is due": ("root", b'"benchmarkFence":0', b'"benchmarkFence":true'),
    "NaN": ("root", b'"benchmarkFence":0', b'"benchmarkFence":NaN'),
    "a lone surrogate": ("root", b'"dataset":"data"', b'"dataset":"\\ud800"'),
    "an upper-case digest": ("root", b'"datasetSnapshot":"sha256:', b'"datasetSnapshot":"SHA256:'),
    "another algorithm": ("root", b'"datasetSnapshot":"sha256:', b'"datasetSnapshot":"sha512:'),
    "a shard id that leaves the folder": ("root", b'"id":"shard-', b'"id":"../shard-'),
    "an absolute shard id": ("root", b'"id":"shard-', b'"id":"/shard-'),
    "a shard id with a NUL": ("root", b'"id":"shard-', b'"id":"\\u0000shard-'),
}


@pytest.mark.parametrize("name", READINGS)
def test_what_two_programs_could_read_in_two_ways_is_refused_before_it_is_believed(name: str) -> None:
    record, old, new = READINGS[name]
    data, kind = the_records()[record]
    assert json.encode(json.decode(data, kind)) == data
    changed = data.replace(old, new, 1)
    assert changed != data
    with pytest.raises(FormatError) as caught:
        json.decode(changed, kind)
    assert caught.value.code in (ErrorCode.FORMAT_NOT_A_RECORD, ErrorCode.FORMAT_NOT_CANONICAL)


def test_a_record_schema_with_a_name_twice_is_refused_by_the_verifier_too() -> None:
    built = a_release()
    schema = built.schema
    described = put_record(built.store, replace(schema, fields=(schema.fields[0], *schema.fields[:-1])))
    objects = replace(built.release.objects, record_schema=replace(described, object_version=None))
    built.release = replace(built.release, objects=objects, record_schema=described.digest)
    assert ErrorCode.RECORD_SCHEMA in codes(built.report())


def odd_values() -> Any:
    """Values, and clothes of values, on which readers differ."""
    bits = [0, 1 << 63, 0x7FF8 << 48, (0x7FF8 << 48) + 1, 0xFFF8 << 48]
    floats = pa.array(np.array(bits, np.uint64).view(np.float64))
    raw = pa.array([bytes([n]) * 16 for n in range(5)], pa.binary(16))
    tensor = pa.array([[1, 2, 3, 4, 5, 6]] * 5, pa.list_(pa.int16(), 6))
    columns = {
        "id": [f"r{n}" for n in range(5)],
        "floats": floats,
        "all nan": pa.array([float("nan")] * 5, pa.float32()),
        "half": pa.array(np.array([0.5, -0.0, np.nan, np.inf, 1], np.float16)),
        "utc": pa.array([0, 1, None, -1, 2**40], pa.timestamp("us", "+00:00")),
        "paris": pa.array([0, 1, None, -1, 2**40], pa.timestamp("ns", "Europe/Paris")),
        "naive": pa.array([0, 1, None, -1, 2**40], pa.timestamp("s")),
        "decimal": pa.array([None, "1.50", "-0.01", "0.00", "99.99"])
        .cast(pa.decimal128(9, 2))
        .cast(pa.decimal32(9, 2)),
        "states": pa.array([None, [], [None], [""], ["", None]], pa.large_list(pa.string_view())),
        "nested": pa.array([None, [], [[]], [None], [[0], []]], pa.list_(pa.list_(pa.int8()))),
        "largest": pa.array([2**64 - 1, 2**53 + 1, None, 0, 1], pa.uint64()),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), raw),
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int16(), [2, 3]), tensor),
        "s.a": pa.array(range(5)),
        "s": pa.StructArray.from_arrays([pa.array(range(5))], ["a"]),
        "Case": pa.array(["x", "y", "x", "y", "x"]).dictionary_encode(),
        "case": pa.array(["", "\0", "é", None, "e\u0301"], pa.large_string()),
    }
    return pa.table(columns)


def test_a_release_of_odd_values_is_what_was_declared_and_passes(tmp_path: Path) -> None:
    """No missing and no extra, with NaN beside itself too; and it is published from itself again."""
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "odd.arrow", odd_values())
    columns = Columns(id="id", source=None, version=None, split=None)
    snapshot = made.snapshot(source, columns=columns, token_column=None)
    assert made.snapshot(source, columns=columns, token_column=None) == snapshot
    root = made.publish(snapshot, source).root
    report = verify_release(made.store, root, read_gate(made.store, made.dataset), world=a_world(made)).report
    assert (report.verdict, report.findings) == ("PASSED", ())
    assert made.publish(snapshot, source).root == root
    assert digest_file(source).records == 5


def test_a_file_beside_the_shards_that_nobody_lists_is_never_read() -> None:
    built = a_release()
    stray = object_key(digest_of(b"what is this?"))
    built.store.create(stray, b"PAR1, not quite")
    recording = RecordingStore(built.store)
    watched = Built(Publishing(store=recording, keys=built.made.keys, dataset=built.made.dataset), built.root)
    assert watched.verified(built.root).report.findings == ()
    assert ("read", stray) not in recording.requests
    assert ("read", object_key(watched.release.shards[0].digest)) in recording.requests
