"""A release with packed columns: the same members, read alike by every reader, and what is wrong with one is found."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.pull import pull_release
from shardrel.data.reading import stored_reading
from shardrel.data.shards import select_fields
from shardrel.drills.forge import with_values
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.gate.fences import FenceSelectors
from shardrel.gate.view import read_gate
from shardrel.proofs.prove import prove
from shardrel.records.schema import RecordSchema
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record
from shardrel.trust.key_encryption import Unlocked
from tests.support.publishing import Columns, Publishing, write_source
from tests.support.release_builder import Built, a_world
from verifier.verify import verify_release

IDS = Columns(id="id", source=None, version=None, split=None)
ALL = ("image", "planes", "tokens", "weights")
ROWS = 70


def numbers_table() -> Any:
    """Lists of numbers of every layout, with null rows."""
    rng = np.random.default_rng(5)
    pixels = pa.array(rng.integers(0, 256, ROWS * 12, np.uint8))
    planes = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pixels, 4), 3)
    tokens = [None if n % 11 == 3 else [(n * k) % 65_536 for k in range(n % 7)] for n in range(ROWS)]
    return pa.table(
        {
            "id": [f"sample-{n * 31 % 97:03d}" for n in range(ROWS)],
            "image": pa.FixedSizeListArray.from_arrays(pixels, 12),
            "planes": planes,
            "tokens": pa.array(tokens, pa.list_(pa.uint16())),
            "weights": pa.array([[n / 3, -n / 7] for n in range(ROWS)], pa.list_(pa.float32(), 2)),
            "text": [f"text {n}" for n in range(ROWS)],
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "a.arrow", numbers_table(), batch_records=16)


@pytest.fixture
def made() -> Publishing:
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    return publishing


def roots(made: Publishing, source: Path) -> tuple[str, str]:
    """The same snapshot, published without packed columns and with all that can be."""
    snapshot = made.snapshot(source, columns=IDS, token_column=None)
    plain = made.publish(snapshot, source, options=PublishOptions(shards=3)).root
    return plain, made.publish(snapshot, source, options=PublishOptions(shards=3, packed=ALL)).root


def judged(made: Publishing, root: str) -> dict[str, int]:
    """Findings of the verifier by code."""
    report = verify_release(made.store, root, read_gate(made.store, made.dataset), world=a_world(made)).report
    return {finding.code: finding.count for finding in report.findings}


def decoded(made: Publishing, root: str, folder: Path) -> Iterator[Any]:
    """Every column of every shard as a reader of the loader gets it."""
    release = made.release(root)
    schema = get_record(made.store, release.objects.record_schema, RecordSchema)
    cache = DecodedCache(ShardCache(folder, made.store))
    fields = select_fields(schema, (*ALL, "text"))
    for shard in release.shards:
        opened = cache.open(ShardEntry(shard=shard, schema=schema), fields, None)
        yield [column.logical().to_pylist() for column in opened.columns]


def test_members_are_the_same_and_stored_bytes_are_not(made: Publishing, source: Path, tmp_path: Path) -> None:
    plain, packed = roots(made, source)
    ours, theirs = made.release(packed), made.release(plain)
    assert packed != plain
    assert ours.ordered_member_tuple_root == theirs.ordered_member_tuple_root
    assert ours.objects.member_index == theirs.objects.member_index
    for one, other in zip(ours.shards, theirs.shards, strict=True):
        assert one.logical_digest == other.logical_digest
        assert one.member_set_digest == other.member_set_digest
        assert one.digest != other.digest
    assert {c.path for c in ours.serializer.columns if c.physical == "packed"} == set(ALL)
    assert {c.physical for c in theirs.serializer.columns} == {"native"}
    assert judged(made, plain) == judged(made, packed) == {}
    assert list(decoded(made, packed, tmp_path / "1")) == list(decoded(made, plain, tmp_path / "2"))


def test_the_root_depends_on_which_columns_and_on_nothing_else(made: Publishing, source: Path) -> None:
    snapshot = made.snapshot(source, columns=IDS, token_column=None)

    def root(packed: tuple[str, ...], workers: int = 2, memory_bytes: int = 1 << 30) -> str:
        options = PublishOptions(shards=3, packed=packed, workers=workers, memory_bytes=memory_bytes)
        return made.publish(snapshot, source, options=options).root

    first = root(("image", "tokens"))
    assert first == root(("tokens", "image", "tokens"), workers=1) == root(("image", "tokens"), memory_bytes=1000)
    assert len({first, root(()), root(("image",))}) == 3


def test_a_proof_from_a_packed_shard(made: Publishing, source: Path) -> None:
    plain, packed = roots(made, source)
    reading = stored_reading(made.store, Unlocked())
    for sample_id in numbers_table()["id"].to_pylist()[::9]:
        ours, theirs = (prove(made.store, root, sample_id, reading) for root in (packed, plain))
        assert ours.count == 1
        assert ours.members == theirs.members


def test_tokens_of_a_packed_column_are_counted(made: Publishing, source: Path) -> None:
    whole = write_source(
        source.with_name("b.arrow"), numbers_table().filter(pa.compute.is_valid(numbers_table()["tokens"]))
    )
    snapshot = made.snapshot(whole, columns=IDS, token_column="tokens")
    root = made.publish(snapshot, whole, options=PublishOptions(shards=2, packed=("tokens",))).root
    assert made.release(root).totals.tokens == sum(len(row or []) for row in numbers_table()["tokens"].to_pylist())
    assert judged(made, root) == {}


def test_a_split_that_is_pulled_has_lists(made: Publishing, source: Path, tmp_path: Path) -> None:
    _, packed = roots(made, source)
    pull_release(made.store, packed, tmp_path / "to", split="train", progress=lambda done, total: None)
    table = pa.concat_tables(pa.parquet.read_table(path) for path in sorted((tmp_path / "to").glob("*.parquet")))
    assert table["image"].type == pa.list_(pa.field("element", pa.uint8()), 12)


def test_a_null_among_the_numbers_publishes_nothing(made: Publishing, tmp_path: Path) -> None:
    table = pa.table(
        {"id": [f"s{n}" for n in range(9)], "v": pa.array([[1]] * 6 + [[None]] + [[2]] * 2, pa.list_(pa.int8()))}
    )
    source = write_source(tmp_path / "a.arrow", table, batch_records=4)
    snapshot = made.snapshot(source, columns=IDS, token_column=None)
    with pytest.raises(InvalidInputError) as raised:
        made.publish(snapshot, source, options=PublishOptions(packed=("v",)))
    assert raised.value.code == ErrorCode.INPUT_NOT_NULL
    assert raised.value.context == {"column": "v", "row": 6, "path": str(source)}
    assert not read_gate(made.store, made.dataset).body.publications
    gone = FenceSelectors(sample_ids=frozenset({"s6"}))
    snapshot = made.snapshot(source, columns=IDS, token_column=None, fences=gone)
    result = made.publish(snapshot, source, options=PublishOptions(packed=("v",)), fences=gone)
    assert (result.records, result.excluded) == (8, 1)


@pytest.mark.parametrize(("column", "code"), [("text", "input.column-type"), ("image2", "input.no-such-column")])
def test_a_column_that_cannot_be_packed_pins_nothing(made: Publishing, source: Path, column: str, code: str) -> None:
    snapshot = made.snapshot(source, columns=IDS, token_column=None)
    before = read_gate(made.store, made.dataset).body
    with pytest.raises(InvalidInputError) as raised:
        made.publish(snapshot, source, options=PublishOptions(packed=(column,)))
    assert raised.value.code == code
    assert read_gate(made.store, made.dataset).body == before


def test_two_columns_of_one_path(made: Publishing, tmp_path: Path) -> None:
    lists = pa.array([[1], [2]], pa.list_(pa.int8()))
    source = write_source(tmp_path / "a.arrow", pa.table({"id": ["a", "b"], "v": lists, "v.list.element": lists}))
    snapshot = made.snapshot(source, columns=IDS, token_column=None)
    with pytest.raises(InvalidInputError) as raised:
        made.publish(snapshot, source, options=PublishOptions(packed=("v.list.element",)))
    assert raised.value.code == ErrorCode.INPUT_COLUMN_TYPE
    root = made.publish(snapshot, source, options=PublishOptions(packed=("v",))).root
    assert judged(made, root) == {}


def forged(made: Publishing, source: Path) -> Built:
    _, packed = roots(made, source)
    return Built(made, packed)


def column(built: Built, which: str, **declared: Any) -> None:
    """Declare a column in another way."""
    columns = [replace(c, **declared) if c.path == which else c for c in built.release.serializer.columns]
    built.release = replace(built.release, serializer=replace(built.release.serializer, columns=tuple(columns)))


def codes(built: Built) -> set[str]:
    return {finding.code for finding in built.report().findings}


def test_a_number_that_was_changed_in_a_packed_row(made: Publishing, source: Path) -> None:
    built = forged(made, source)

    def change(table: Any) -> Any:
        rows = table["image"].to_pylist()
        return with_values(table, "image", [bytes([rows[0][0] ^ 1]) + rows[0][1:], *rows[1:]])

    built.rewrite(0, change)
    assert codes(built) >= {ErrorCode.MEMBER_CONTENT}


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_bytes_that_are_no_whole_number_of_elements(made: Publishing, source: Path, cut: int) -> None:
    built = forged(made, source)
    table = built.shard_table(0)
    rows = table["planes"].to_pylist()
    built.put_shard(0, built.encoded(with_values(table, "planes", [rows[0][:-cut], *rows[1:]])))
    assert ErrorCode.RECORD_SCHEMA in codes(built)


def test_a_list_of_another_size_in_a_packed_row(made: Publishing, source: Path) -> None:
    built = forged(made, source)
    table = built.shard_table(0)
    rows = table["image"].to_pylist()
    built.put_shard(0, built.encoded(with_values(table, "image", [rows[0][:-1], *rows[1:]])))
    assert ErrorCode.RECORD_SCHEMA in codes(built)


def test_packed_columns_that_are_declared_native(made: Publishing, source: Path) -> None:
    built = forged(made, source)
    column(built, "image", physical="native")
    assert ErrorCode.RECORD_SCHEMA in codes(built)


def test_a_column_that_cannot_be_packed_and_is_declared_so(made: Publishing, source: Path) -> None:
    built = forged(made, source)
    column(built, "text", physical="packed")
    assert codes(built) == {ErrorCode.PARQUET_PARAMETERS}


def test_packed_columns_of_one_path_are_found(
    made: Publishing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both leaves are written alike, so that their pages do not tell."""
    monkeypatch.setattr("publisher.columns.Counter", lambda paths: dict.fromkeys(paths, 1))
    texts, lists = pa.array([["a"], ["b"]], pa.list_(pa.string())), pa.array([[1], [2]], pa.list_(pa.int8()))
    source = write_source(tmp_path / "a.arrow", pa.table({"id": ["a", "b"], "v": texts, "v.list.element": lists}))
    snapshot = made.snapshot(source, columns=IDS, token_column=None)
    root = made.publish(snapshot, source, options=PublishOptions(packed=("v.list.element",))).root
    assert ErrorCode.PARQUET_PARAMETERS in judged(made, root)


def test_a_packed_column_with_a_dictionary(made: Publishing, source: Path) -> None:
    built = forged(made, source)
    column(built, "image", dictionary=True, encoding="PLAIN")
    for number in range(3):
        built.rewrite(number, lambda table: table)
    found = [(one.code, one.detail) for one in built.report().findings]
    assert (ErrorCode.PARQUET_PARAMETERS, "a packed column has a dictionary") in found  # and is not unfolded


def test_native_lists_that_are_declared_packed(made: Publishing, source: Path) -> None:
    plain, _ = roots(made, source)
    built = Built(made, plain)
    column(built, "image.list.element", physical="packed", path="image")
    assert ErrorCode.RECORD_SCHEMA in codes(built)
