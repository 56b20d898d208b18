"""publish: the same root from the same members, and a refusal for any others."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.options import PublishOptions
from shardrel.canonical import json, sha
from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import record_schema
from shardrel.canonical.text import text_digest
from shardrel.digest import Domain, domain_hash, raw_digest, u64
from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode, InvalidInputError, NotFoundError, RefusedError
from shardrel.gate.fences import FenceSelectors, selectors
from shardrel.gate.view import read_gate
from shardrel.membership.merkle import MerkleStream, ordered_root
from shardrel.records.descriptor import Descriptor
from shardrel.records.release import Compression
from shardrel.records.report import PROVENANCE_PREDICATE, STATEMENT_PAYLOAD
from shardrel.records.snapshot import MemberIndex
from shardrel.store.layout import attestation_prefix
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get, get_record
from shardrel.trust.envelope import unseal
from shardrel.trust.statement import read_statement
from tests.support.benchmark_texts import named_texts, text_entry
from tests.support.publishing import ID_COLUMNS, Publishing, records_table, write_source

RESERVED = ["_shardrel_sample_id", "_shardrel_source_id", "_shardrel_source_version", "_shardrel_split"]


@pytest.fixture
def dataset() -> Publishing:
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    return publishing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.arrow", records_table(500))


def shard_tables(dataset: Publishing, root: str) -> list[Any]:
    tables = []
    for shard in dataset.release(root).shards:
        descriptor = Descriptor(
            media_type=shard.media_type, digest=shard.digest, size=shard.size, object_version=shard.object_version
        )
        tables.append(pq.read_table(pa.BufferReader(get(dataset.store, descriptor)), page_checksum_verification=True))
    return tables


def test_every_record_is_in_one_shard_in_canonical_order(dataset: Publishing, source: Path) -> None:
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shards=3))
    tables = shard_tables(dataset, result.root)
    for table in tables:
        assert table.column_names == [*RESERVED, "text", "label", "score", "tokens"]
        ids = table["_shardrel_sample_id"].to_pylist()
        assert ids == sorted(ids)
    whole = pa.concat_tables(tables).sort_by("_shardrel_sample_id")
    expected = pa.ipc.open_file(str(source)).read_all().sort_by("id")
    assert whole["_shardrel_sample_id"].to_pylist() == expected["id"].to_pylist()
    assert whole["_shardrel_source_version"].to_pylist() == [str(v) for v in expected["version"].to_pylist()]
    for name in ("text", "label", "score", "tokens"):
        assert whole[name].to_pylist() == expected[name].to_pylist()


def test_the_manifest_says_what_the_shards_hold(dataset: Publishing, source: Path) -> None:
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shards=3))
    release = dataset.release(result.root)
    table = pa.ipc.open_file(str(source)).read_all()
    tokens = sum(len(value) for value in table["tokens"].to_pylist())
    assert (release.totals.records, release.totals.tokens, release.totals.shards) == (500, tokens, 3)
    assert release.totals.splits["test"].records == table["split"].to_pylist().count("test")
    assert release.totals.stored_bytes == result.stored_bytes == sum(shard.size for shard in release.shards)
    for shard, rows in zip(release.shards, shard_tables(dataset, result.root), strict=True):
        payload = rows.drop_columns(RESERVED)
        encoder = RowEncoder(record_schema(payload.schema))
        digests = encoder.content_digests(payload)
        stream = encoder.content_type + u64(len(rows)) + digests.digests.tobytes()
        assert (shard.records, shard.logical_bytes) == (len(rows), digests.logical_bytes)
        assert raw_digest(shard.logical_digest) == domain_hash(Domain.STREAM, stream)


def test_the_member_index_finds_every_record(dataset: Publishing, source: Path) -> None:
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shards=3))
    release = dataset.release(result.root)
    index = get_record(dataset.store, release.objects.member_index, MemberIndex)
    tables = shard_tables(dataset, result.root)
    leaves = MerkleStream()
    for part in index.parts:
        rows = pq.read_table(pa.BufferReader(get(dataset.store, part.object)))
        for sample, shard, row in zip(*(rows[name].to_pylist() for name in ("sample_id", "shard", "row")), strict=True):
            assert tables[shard]["_shardrel_sample_id"][row].as_py() == sample
        assert rows.column_names == ["sample_id", "leaf", "shard", "row"]
        leaves.append(np.frombuffer(b"".join(rows["leaf"].to_pylist()), np.uint8).reshape(-1, 32))
    assert raw_digest(release.ordered_member_tuple_root) == ordered_root(leaves.root(), 500, 0, 0)


def test_workers_batches_and_memory_do_not_change_the_root(dataset: Publishing, source: Path, tmp_path: Path) -> None:
    snapshot = dataset.snapshot(source)
    first = dataset.publish(snapshot, source, options=PublishOptions(shards=4, workers=1))
    again = dataset.publish(snapshot, source, options=PublishOptions(shards=4, workers=5, memory_bytes=0))
    assert (again.root, again.already_present) == (first.root, 4)
    (tmp_path / "other").mkdir()
    other = write_source(tmp_path / "other" / "a.arrow", records_table(500), batch_records=7)
    assert dataset.publish(snapshot, other, options=PublishOptions(shards=4)).root == first.root


def test_other_clothes_of_the_source_do_not_change_the_root(dataset: Publishing, source: Path, tmp_path: Path) -> None:
    snapshot = dataset.snapshot(source)
    table = records_table(500)
    dressed = {
        "id": table["id"].cast(pa.large_string()),
        "split": table["split"].dictionary_encode(),
        "text": table["text"].dictionary_encode(),
        "label": table["label"].cast(pa.large_string()),
        "tokens": table["tokens"].cast(pa.large_list(pa.uint16())),
    }
    table = pa.table({name: dressed.get(name, table[name]) for name in table.column_names})
    (tmp_path / "dressed").mkdir()
    path = tmp_path / "dressed" / "a.arrow"
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as writer:
        writer.write_table(table, max_chunksize=100)
    assert dataset.publish(snapshot, path).root == dataset.publish(snapshot, source).root


def test_the_order_of_the_source_does_not_change_the_root(dataset: Publishing, tmp_path: Path) -> None:
    table = records_table(300)
    source = write_source(tmp_path / "a.arrow", table)
    snapshot = dataset.snapshot(source)
    root = dataset.publish(snapshot, source).root
    write_source(source, table.take(list(range(299, -1, -1))))
    assert dataset.publish(snapshot, source).root == root


def test_content_digests_are_equal_in_other_stores(source: Path, dataset: Publishing) -> None:
    other = Publishing(store=MemoryStore(), keys=dataset.keys)
    other.init()
    ours = dataset.publish(dataset.snapshot(source), source)
    theirs = other.publish(other.snapshot(source), source)
    assert ours.content_digest == theirs.content_digest


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (PublishOptions(shards=2, seed=1), False),
        (PublishOptions(shards=3), False),
        (PublishOptions(shards=2, compression=Compression(codec="snappy", level=None)), False),
        (PublishOptions(shards=2), True),
    ],
)
def test_parameters_are_part_of_the_root(
    dataset: Publishing, source: Path, options: PublishOptions, same: bool
) -> None:
    snapshot = dataset.snapshot(source)
    assert (dataset.publish(snapshot, source, options=options).root == dataset.publish(snapshot, source).root) is same


def test_more_shards_than_records_gives_empty_shards(dataset: Publishing, tmp_path: Path) -> None:
    source = write_source(tmp_path / "a.arrow", records_table(3))
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shards=9))
    release = dataset.release(result.root)
    assert [shard.id for shard in release.shards] == [f"shard-{i:05d}-of-00009" for i in range(9)]
    assert sorted(shard.records for shard in release.shards)[:6] == [0] * 6
    assert sum(table.num_rows for table in shard_tables(dataset, result.root)) == 3


def test_the_shard_size_decides_the_number_of_shards(dataset: Publishing, source: Path) -> None:
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shard_bytes=10_000))
    logical = dataset.release(result.root).totals.logical_bytes
    assert result.shards == -(-logical // 10_000)


def changed(table: Any, how: str) -> Any:
    names = table.column_names
    match how:
        case "missing":
            return table.slice(1)
        case "extra":
            return pa.concat_tables([table, records_table(1, first=9000)])
        case "twice":
            return pa.concat_tables([table, table.slice(0, 1)])
        case "content":
            return table.set_column(names.index("score"), "score", pa.array([-1.0, *table["score"].to_pylist()[1:]]))
        case _:
            return table.set_column(names.index(how), how, pa.array(["zzz", *table[how].to_pylist()[1:]]))


@pytest.mark.parametrize(
    ("how", "counts"),
    [
        ("missing", {"missing": 1, "extra": 0, "changed": 0}),
        ("extra", {"missing": 0, "extra": 1, "changed": 0}),
        ("twice", {"missing": 0, "extra": 1, "changed": 0}),
        ("content", {"missing": 0, "extra": 0, "changed": 1}),
        ("split", {"missing": 0, "extra": 0, "changed": 1}),
        ("id", {"missing": 1, "extra": 1, "changed": 0}),
    ],
)
def test_a_source_that_differs_from_its_snapshot_writes_nothing(
    dataset: Publishing, source: Path, how: str, counts: dict[str, int]
) -> None:
    snapshot = dataset.snapshot(source)
    write_source(source, changed(records_table(500), how))
    before = set(dataset.store.list("objects/"))
    with pytest.raises(RefusedError) as caught:
        dataset.publish(snapshot, source)
    assert caught.value.code == ErrorCode.SOURCE_MISMATCH
    assert {name: caught.value.context[name] for name in counts} == counts
    for key in set(dataset.store.list("objects/")) - before:  # the pin, and its end
        stored = dataset.store.read(key, max_bytes=1 << 20)
        assert stored is not None
        assert b"payloadType" in stored.data
    body = read_gate(dataset.store, dataset.dataset).body
    assert (body.candidates, body.publications) == ({}, {})


def test_how_many_rows_will_be_hashed_is_told_before(
    dataset: Publishing, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content and tuple of each record, as the snapshot counts them."""
    snapshot = dataset.snapshot(source)
    told: list[int] = []
    monkeypatch.setattr(sha._LANES, "expect", told.append)
    assert 2 * dataset.publish(snapshot, source).records == told[0] == 1000
    assert len(told) == 1


def test_a_snapshot_that_is_not_there_is_not_found(dataset: Publishing, source: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        dataset.publish("sha256:" + "0" * 64, source)
    assert caught.value.code == ErrorCode.STORAGE_ABSENT


def test_what_the_logs_name_is_left_out_and_counted(dataset: Publishing, source: Path) -> None:
    table = pa.ipc.open_file(str(source)).read_all()
    ids = table["id"].to_pylist()
    payload = table.select(["text", "label", "score", "tokens"])
    digest = RowEncoder(record_schema(payload.schema)).content_digests(payload).digests[7].tobytes()
    fences = FenceSelectors(
        sample_ids=frozenset([ids[0], "nobody"]),
        source_versions=frozenset([("a.arrow", "2"), ("other", "1")]),
        content_digests=frozenset([digest]),
    )
    versions = table["version"].to_pylist()
    gone = {ids[0], ids[7], *(name for name, version in zip(ids, versions, strict=True) if version == 2)}
    result = dataset.publish(dataset.snapshot(source, fences=fences), source, fences=fences)
    assert (result.excluded, result.records) == (len(gone), 500 - len(gone))
    kept = {name for t in shard_tables(dataset, result.root) for name in t["_shardrel_sample_id"].to_pylist()}
    assert kept == set(ids) - gone


def test_members_that_the_logs_name_are_left_out_of_an_older_snapshot_too(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    fences = FenceSelectors(sample_ids=frozenset(records_table(2)["id"].to_pylist()))
    assert dataset.publish(snapshot, source, fences=fences).excluded == 2


def test_records_are_left_out_by_their_text(dataset: Publishing, source: Path) -> None:
    text = records_table(2)["text"][1].as_py()
    digest = text_digest(text.upper())
    assert digest is not None
    fences = FenceSelectors(text_digests=frozenset([digest]))
    result = dataset.publish(dataset.snapshot(source, fences=fences), source, fences=fences)
    assert result.excluded == records_table(500)["text"].to_pylist().count(text)


def test_records_are_left_out_by_words_that_they_share_with_a_benchmark(dataset: Publishing, source: Path) -> None:
    texts = records_table(500)["text"].to_pylist()
    entries = [text_entry(1, f"Now then: {texts[3].upper()}!", words=3), text_entry(2, "nobody wrote any of this")]
    fences = selectors(entries)
    named = sum(named_texts(entries, texts))
    result = dataset.publish(dataset.snapshot(source, fences=fences), source, fences=fences)
    assert 0 < result.excluded == named < 500


def test_a_release_without_records_is_refused(dataset: Publishing, source: Path) -> None:
    fences = FenceSelectors(sources=frozenset(["a.arrow"]))
    with pytest.raises(InvalidInputError) as caught:
        dataset.publish(dataset.snapshot(source), source, fences=fences)
    assert caught.value.code == ErrorCode.INPUT_NO_RECORDS


def test_the_gate_pins_the_snapshot_and_then_knows_the_root(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    recording = RecordingStore(dataset.store)
    result = Publishing(store=recording, keys=dataset.keys).publish(snapshot, source)
    body = read_gate(dataset.store, dataset.dataset).body
    assert (body.candidates[result.root].state, result.state, body.publications) == ("STAGED", "STAGED", {})
    writes = [(operation, key) for operation, key in recording.requests if operation in ("create", "swap")]
    swaps = [i for i, (operation, _) in enumerate(writes) if operation == "swap"]
    shards = {shard.digest[7:] for shard in dataset.release(result.root).shards}
    first_shard = min(i for i, (_, key) in enumerate(writes) if key.rpartition("/")[2] in shards)
    assert swaps[0] < first_shard < swaps[1]


def test_provenance_is_signed_and_about_the_root(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    result = dataset.publish(snapshot, source, options=PublishOptions(shards=2, seed=5))
    (key,) = dataset.store.list(attestation_prefix(result.root))
    stored = dataset.store.read(key, max_bytes=1 << 20)
    assert stored is not None
    opened = unseal(stored.data, STATEMENT_PAYLOAD, [dataset.keys["publisher"].public])
    _, predicate = read_statement(opened.payload, result.root, PROVENANCE_PREDICATE)
    build = msgspec.json.decode(predicate)["buildDefinition"]
    assert build["externalParameters"]["snapshot"] == snapshot
    assert build["externalParameters"]["parameters"]["seed"] == 5
    named = {entry["name"]: entry["digest"]["sha256"] for entry in build["resolvedDependencies"]}
    assert named == {"snapshot": snapshot[7:], "source/a.arrow": hashlib.sha256(source.read_bytes()).hexdigest()}


def test_a_second_run_adds_nothing_but_its_pin(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    first = dataset.publish(snapshot, source)
    objects = set(dataset.store.list("objects/"))
    second = dataset.publish(snapshot, source, now=lambda: "2027-01-01T00:00:00Z")
    assert second.root == first.root
    assert second.already_present == first.shards
    assert len(list(dataset.store.list(attestation_prefix(first.root)))) == 1
    assert len(set(dataset.store.list("objects/")) - objects) == 2  # the transitions of the second pin


def test_the_manifest_holds_no_time_and_no_worker_count(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    root = dataset.publish(snapshot, source, options=PublishOptions(shards=2, workers=3)).root
    text = json.encode(dataset.release(root)).decode()
    assert "2026" not in text
    assert "workers" not in text


@pytest.mark.parametrize("bad", [{"shards": 0}, {"shard_bytes": 0}, {"workers": 0}, {"seed": -1}])
def test_options_out_of_range_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        PublishOptions(**bad)  # type: ignore[arg-type]
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_default_ids_name_file_and_row(dataset: Publishing, tmp_path: Path) -> None:
    source = write_source(tmp_path / "plain.arrow", records_table(20).select(["text", "tokens"]))
    snapshot = dataset.snapshot(source, columns=msgspec.structs.replace(ID_COLUMNS, id=None, version=None, split=None))
    tables = shard_tables(dataset, dataset.publish(snapshot, source).root)
    ids = sorted(name for table in tables for name in table["_shardrel_sample_id"].to_pylist())
    assert ids == sorted(f"plain.arrow#{row}" for row in range(20))
    versions = {value for table in tables for value in table["_shardrel_source_version"].to_pylist()}
    assert versions == {"sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()}


@pytest.mark.parametrize("value", ["", None])
def test_columns_of_strings_without_any_bytes(dataset: Publishing, tmp_path: Path, value: str | None) -> None:
    table = records_table(200)
    nothing = pa.array([value] * 200, pa.string())
    for name in ("note", "remark"):
        table = table.append_column(name, nothing)
    source = write_source(tmp_path / "b.arrow", table, batch_records=50)
    result = dataset.publish(dataset.snapshot(source), source, options=PublishOptions(shards=3))
    whole = pa.concat_tables(shard_tables(dataset, result.root))
    assert whole["note"].to_pylist() == whole["remark"].to_pylist() == [value] * 200
    assert sorted(whole["_shardrel_sample_id"].to_pylist()) == sorted(table["id"].to_pylist())
