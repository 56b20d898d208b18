"""Files that broke other tools: equal ones keep one digest, unequal ones do not, broken ones are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.digest import digest_file
from publisher.snapshot import SnapshotOptions, make_snapshot
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError
from shardrel.gate.fences import FenceSelectors
from shardrel.records.snapshot import Columns
from shardrel.store.memory import MemoryStore
from tests.support.cases import broken, encodings
from tests.support.cases.model import FileCase, parquet
from tests.support.process import peak_memory
from tests.support.publishing import Publishing
from verifier.digest import digest_file as digest_file_independently

CASES: list[Callable[[], FileCase]] = [
    encodings.wide_text, encodings.dictionaries, encodings.twin_names, encodings.lists, encodings.floats,
    encodings.times, encodings.numbers, encodings.labels,
    broken.parquet_files, broken.json_frames, broken.arrow_files,
]  # fmt: skip
DIGESTS: dict[str, Callable[[Path], Any]] = {"publisher": digest_file, "verifier": digest_file_independently}


@pytest.mark.parametrize("by", DIGESTS)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_digest_tells_what_a_reader_could_see_and_nothing_else(
    make: Callable[[], FileCase], by: str, tmp_path: Path
) -> None:
    case = make()
    case.write(tmp_path)
    sound = {name: DIGESTS[by](tmp_path / name) for name in case.files if name not in case.refused}
    logical = {name: digest.logical_digest for name, digest in sound.items()}
    schemas = {name: digest.schema_digest for name, digest in sound.items()}

    assert all(len({logical[name] for name in group}) == 1 for group in case.same)
    assert all(len({logical[name] for name in group}) == len(group) for group in case.differ)
    assert all(len({schemas[name] for name in group}) == 1 for group in case.one_schema)
    assert all(len({schemas[name] for name in group}) == len(group) for group in case.other_schema)
    assert {name: sound[name].records for name in case.records} == case.records
    for name, code in case.refused.items():
        with pytest.raises(InvalidInputError) as refusal:
            DIGESTS[by](tmp_path / name)
        assert (name, refusal.value.code) == (name, code)
        assert refusal.value.context["path"] == str(tmp_path / name)


@pytest.mark.parametrize("make", [encodings.twin_names, encodings.times, *CASES[8:]], ids=lambda make: make.__name__)
def test_a_snapshot_refuses_what_a_digest_refuses_and_creates_nothing(
    make: Callable[[], FileCase], tmp_path: Path
) -> None:
    case = make()
    case.write(tmp_path)
    store = MemoryStore()
    for name, code in case.refused.items():
        with pytest.raises(InvalidInputError) as refusal:
            declare(store, tmp_path / name)
        assert (name, refusal.value.code) == (name, code)
    assert list(store.list("objects/")) == []


def test_a_source_that_lost_a_whole_frame_is_no_source_of_its_snapshot(tmp_path: Path) -> None:
    codec = pa.Codec("zstd")
    frames = [codec.compress(f'{{"id": "{at}", "text": "t"}}\n'.encode(), asbytes=True) for at in range(3)]
    source = tmp_path / "x.jsonl.zst"
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    source.write_bytes(b"".join(frames))
    columns = Columns(id="id", source=None, version=None, split=None)
    snapshot = publishing.snapshot(source, columns=columns, token_column=None)

    source.write_bytes(b"".join(frames[:2]))

    with pytest.raises(RefusedError) as refusal:
        publishing.publish(snapshot, source)
    assert refusal.value.code == ErrorCode.SOURCE_MISMATCH


def declare(store: MemoryStore, source: Path) -> None:
    """Make a snapshot by the default rules."""
    options = SnapshotOptions(dataset="data")
    none = FenceSelectors()
    make_snapshot(store, [str(source)], options, tombstones=none, benchmarks=none, progress=lambda done, total: None)


@pytest.mark.parametrize("by", DIGESTS)
def test_text_of_two_gib_in_a_file_of_a_few_kib_is_digested_in_far_less_memory(by: str, tmp_path: Path) -> None:
    rows, value = 2100, "many words " * 95_326
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    big = pa.table({"id": pa.array(range(rows), pa.int64()), "text": repeated})
    limits = {"dictionary_pagesize_limit": 1 << 24, "write_statistics": False}
    (tmp_path / "big.parquet").write_bytes(parquet(big, compression="zstd", store_schema=False, **limits))
    assert rows * len(value) > 2**31

    peak = peak_memory("from {}.digest import digest_file; digest_file({!r})", by, str(tmp_path / "big.parquet"))

    assert peak < 2**30
