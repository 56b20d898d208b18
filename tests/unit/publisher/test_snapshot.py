from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.parts import cut_parts, part_bytes
from publisher.snapshot import SnapshotOptions, SnapshotResult, make_snapshot
from publisher.spill import SortedRuns, first_twin
from publisher.splits import MAX_SPLITS, SplitCounter
from shardrel.canonical.text import text_digest
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError, ShardrelError
from shardrel.gate.fences import FenceSelectors, selectors
from shardrel.membership.bounds import PART_RECORDS
from shardrel.membership.columns import from_table
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Columns, Snapshot, SplitTotals
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get, get_record
from tests.support.benchmark_texts import text_entry
from tests.support.members import members_of
from tests.support.process import peak_memory

NONE = FenceSelectors()
ID = Columns(id="id", source=None, version=None, split=None)


def snapshot(
    store: Any, *sources: Path, tombstones: FenceSelectors = NONE, benchmarks: FenceSelectors = NONE, **options: Any
) -> SnapshotResult:
    return make_snapshot(
        store,
        [str(source) for source in sources],
        SnapshotOptions(dataset="data", **options),
        tombstones=tombstones,
        benchmarks=benchmarks,
        progress=lambda done, total: None,
    )


def declared(store: Any, result: SnapshotResult) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for part in get_record(store, result.descriptor, Snapshot).parts:
        members = from_table(pq.read_table(pa.BufferReader(get(store, part.object))))
        found += list(zip(*[column.to_pylist() for column in members.strings], strict=True))
    return found


def objects(store: Any) -> list[str]:
    return list(store.list("objects/"))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    left = pa.table({"id": ["b", "é", "a"], "text": ["first text", "second", None], "k": [[1], [1, 2], []]})
    pq.write_table(left, folder / "left.parquet")
    pq.write_table(pa.table({"id": ["Z", "aa"], "text": ["x", "y"], "k": [[1], [1]]}), folder / "right.parquet")
    return folder


def test_a_snapshot_declares_all_members_in_order_of_their_ids(store: MemoryStore, source: Path) -> None:
    result = snapshot(store, source, columns=ID, token_column="k", tombstone_watermark=3, benchmark_fence=4)

    record = get_record(store, result.descriptor, Snapshot)
    assert [member[0] for member in declared(store, result)] == ["Z", "a", "aa", "b", "é"]
    assert (record.records, record.tokens, record.splits) == (5, 5, {"train": SplitTotals(records=5, tokens=5)})
    assert (record.dataset, record.tombstone_watermark, record.benchmark_fence) == ("data", 3, 4)
    assert (record.columns, record.token_column, record.text_columns) == (ID, "k", None)
    assert [field.name for field in get_record(store, record.record_schema, RecordSchema).fields] == ["text", "k"]
    assert [part.last_sample_id for part in record.parts] == ["é"]
    assert result.left_out == 0
    assert result.record_schema == record.record_schema.digest


def test_the_same_members_in_other_files_and_clothes_are_the_same_snapshot(store: MemoryStore, tmp_path: Path) -> None:
    table = pa.table({"id": ["b", "a", "c"], "s": ["x", "x", "y"], "v": ["1", "1", "2"], "t": ["p", "q", "r"]})
    columns = Columns(id="id", source="s", version="v", split=None)
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "two").mkdir()
    for at in range(3):
        with pa.OSFile(str(tmp_path / f"two/{at}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.slice(2 - at, 1))

    one, two = [snapshot(store, tmp_path / name, columns=columns) for name in ("one.parquet", "two")]

    assert one.snapshot == two.snapshot


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 4}, {"memory_bytes": 0}])
def test_threads_and_spilling_change_nothing(store: MemoryStore, tmp_path: Path, options: dict[str, int]) -> None:
    for name in "abc":
        ids = [f"{name}{(at * 7919) % 5000:05d}" for at in range(5000)]
        pq.write_table(pa.table({"id": ids, "t": ids}), tmp_path / f"{name}.parquet", row_group_size=700)

    results = [snapshot(store, tmp_path, columns=ID), snapshot(store, tmp_path, columns=ID, **options)]

    assert results[0] == results[1]


def test_a_duplicate_id_is_refused_with_both_files_and_rows(store: MemoryStore, source: Path) -> None:
    pq.write_table(pa.table({"id": ["n", "m", "b"], "text": ["x"] * 3, "k": [[1]] * 3}), source / "third.parquet")

    with pytest.raises(InvalidInputError) as refusal:
        snapshot(store, source, columns=ID)

    assert refusal.value.code == ErrorCode.INPUT_DUPLICATE_ID
    assert refusal.value.context == {
        "path": str(source / "left.parquet"), "row": 0, "other_path": str(source / "third.parquet"), "other_row": 2,
    }  # fmt: skip
    assert objects(store) == []


@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
def test_integer_7_and_text_7_are_one_id(store: MemoryStore, tmp_path: Path, memory_bytes: int) -> None:
    pq.write_table(pa.table({"id": [7], "t": ["x"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["7"], "t": ["x"]}), tmp_path / "b.parquet")

    with pytest.raises(InvalidInputError) as refusal:
        snapshot(store, tmp_path, columns=ID, memory_bytes=memory_bytes)
    assert refusal.value.code == ErrorCode.INPUT_DUPLICATE_ID


@pytest.mark.parametrize("spoil", ["null", "json", "cut", "empty"])
def test_a_bad_file_at_the_end_leaves_nothing_in_the_store(store: MemoryStore, source: Path, spoil: str) -> None:
    last = source / ("zz.jsonl" if spoil == "json" else "zz.parquet")
    pq.write_table(pa.table({"id": [None if spoil == "null" else "n"], "text": ["x"], "k": [[1]]}), last)
    if spoil == "json":
        last.write_text('{"id": "n", "text": "x", "k": [1]\n')
    if spoil in ("cut", "empty"):
        last.write_bytes(last.read_bytes()[: -1 if spoil == "cut" else 0])
    expected = {
        "null": ErrorCode.INPUT_NULL_ID, "json": ErrorCode.INPUT_JSON, "cut": ErrorCode.INPUT_TRUNCATED,
        "empty": ErrorCode.INPUT_EMPTY_FILE,
    }  # fmt: skip

    with pytest.raises(ShardrelError) as refusal:
        snapshot(store, source, columns=ID)

    assert (refusal.value.code, refusal.value.context["path"]) == (expected[spoil], str(last))
    assert objects(store) == []


def test_sources_without_records_are_refused(store: MemoryStore, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([], pa.string())}), tmp_path / "x.parquet")

    with pytest.raises(InvalidInputError) as refusal:
        snapshot(store, tmp_path)
    assert refusal.value.code == ErrorCode.INPUT_NO_RECORDS


def digest_selector(store: MemoryStore, source: Path) -> FenceSelectors:
    (part,) = get_record(store, snapshot(store, source, columns=ID).descriptor, Snapshot).parts
    members = from_table(pq.read_table(pa.BufferReader(get(store, part.object))))
    return FenceSelectors(content_digests=frozenset([members.digests[0].tobytes()]))


@pytest.mark.parametrize("kind", ["sample", "source", "content", "text"])
@pytest.mark.parametrize("log", ["tombstones", "benchmarks"])
def test_members_that_a_log_names_are_refused_or_left_out(
    store: MemoryStore, source: Path, kind: str, log: str
) -> None:
    digest = text_digest("FIRST, text!")
    assert digest is not None
    named, count = {
        "sample": (FenceSelectors(sample_ids=frozenset(["a", "absent"])), 1),
        "source": (FenceSelectors(sources=frozenset(["right.parquet"])), 2),
        "content": (digest_selector(store, source), 1),
        "text": (FenceSelectors(text_digests=frozenset([digest])), 1),
    }[kind]
    before = len(objects(store))

    with pytest.raises(RefusedError) as refusal:
        snapshot(store, source, columns=ID, **{log: named})
    assert refusal.value.code == (ErrorCode.TOMBSTONE_HIT if log == "tombstones" else ErrorCode.BENCHMARK_HIT)
    hits = {
        "tombstone_hits": count if log == "tombstones" else 0,
        "benchmark_hits": count if log == "benchmarks" else 0,
    }
    assert refusal.value.context == hits
    assert len(objects(store)) == before

    result = snapshot(store, source, columns=ID, apply_tombstones=True, **{log: named})
    assert (result.left_out, result.records) == (count, 5 - count)
    assert len(declared(store, result)) == 5 - count


@pytest.mark.parametrize(
    "clothes", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize("columns", [None, ("text",)])
def test_members_that_share_words_with_a_benchmark_are_refused_or_left_out(
    store: MemoryStore, tmp_path: Path, clothes: Any, columns: tuple[str, ...] | None
) -> None:
    texts = ["It said: NO FIRST\ntext, of five… words!", None, "first text", "", "no first text of words"]
    table = pa.table({"id": list("abcde"), "other": ["x"] * 5, "text": pa.array(texts).cast(clothes)})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    named = selectors([text_entry(1, "No first text of five words", words=5), text_entry(2, "a short one", words=5)])
    assert len(named.shingles) == len(named.text_digests) == 1

    with pytest.raises(RefusedError) as refusal:
        snapshot(store, tmp_path, columns=ID, benchmarks=named, text_columns=columns)
    assert (refusal.value.code, refusal.value.context["benchmark_hits"]) == (ErrorCode.BENCHMARK_HIT, 1)
    result = snapshot(store, tmp_path, columns=ID, apply_tombstones=True, benchmarks=named, text_columns=columns)
    assert (result.left_out, result.records) == (1, 4)
    others = snapshot(store, tmp_path, columns=ID, benchmarks=named, text_columns=("other",))
    assert others.records == 5


def test_a_snapshot_of_nothing_but_named_members_is_refused(store: MemoryStore, source: Path) -> None:
    named = FenceSelectors(sources=frozenset(["left.parquet", "right.parquet"]))
    held = snapshot(store, source, columns=ID).records

    with pytest.raises(InvalidInputError) as refusal:
        snapshot(store, source, columns=ID, apply_tombstones=True, tombstones=named)
    assert refusal.value.code == ErrorCode.INPUT_NO_RECORDS
    assert refusal.value.context["left_out"] == held


def test_peak_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from tests.unit.publisher.test_snapshot import snapshot, ID; "
        "from shardrel.store.local import LocalStore; "
        "snapshot(LocalStore(Path({!r})), Path({!r}), columns=ID, memory_bytes=0)"
    )
    peaks = []
    for size in (4, 20):  # the smaller one has as many batches as are read ahead
        folder = tmp_path / f"in{size}"
        folder.mkdir()
        for at in range(size):
            ids = np.arange(PART_RECORDS, dtype=np.int64) * 7919 % PART_RECORDS * 20 + at
            pq.write_table(pa.table({"id": ids, "t": ids.astype(np.int8)}), folder / f"{at}.parquet")
        peaks.append(peak_memory(code, str(tmp_path / f"store{size}"), str(folder)))

    assert peaks[1] < 1.3 * peaks[0], peaks


def tuple_table(*ids: str) -> Any:
    return members_of([(sample, "s", "v", bytes(32), "train") for sample in ids]).to_table()


@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
def test_runs_come_back_in_order_and_equal_ids_in_one_table(tmp_path: Path, memory_bytes: int) -> None:
    ids = [f"{(at * 7919) % 9973:04d}" for at in range(9000)]
    runs = SortedRuns(tmp_path, memory_bytes, run_bytes=100_000, block_rows=50)
    for at in range(0, 9000, 500):
        runs.append(tuple_table(*ids[at : at + 500], "same"))

    tables = list(runs.ranges(range_rows=3000))

    assert len(tables) > 2
    assert [x for table in tables for x in table["sample_id"].to_pylist()] == sorted([*ids, *["same"] * 18])
    assert [first_twin(table) is not None for table in tables] == [False] * (len(tables) - 1) + [True]
    assert bool(list(tmp_path.iterdir())) == (memory_bytes == 0)


@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
@pytest.mark.parametrize("files", [1, 3, 1500])
def test_runs_give_back_plain_strings_of_few_and_of_many_files(tmp_path: Path, memory_bytes: int, files: int) -> None:
    rows = [(f"{(at * 7919) % 4001:04d}", f"file-{at % files}") for at in range(4001)]
    runs = SortedRuns(tmp_path, memory_bytes, run_bytes=60_000, block_rows=50)
    for at in range(0, len(rows), 100):
        ids, sources = zip(*rows[at : at + 100], strict=True)
        runs.append(pa.table({"sample_id": pa.array(ids), "source_id": pa.array(sources).dictionary_encode()}))

    tables = list(runs.ranges(range_rows=1000))

    assert {table.schema.field("source_id").type for table in tables} == {pa.string()}
    assert [tuple(row.values()) for table in tables for row in table.to_pylist()] == sorted(rows)


def test_runs_without_rows_are_no_runs(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path, 0)
    runs.append(tuple_table())

    assert list(runs.ranges()) == []


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_where_a_part_ends_depends_on_the_tuples_alone(chunk: int) -> None:
    whole = tuple_table(*[f"{at:04d}" + "x" * (at % 90) for at in range(1000)])
    pieces = [whole.slice(at, chunk) for at in range(0, 1000, chunk)]

    by_rows = [part.num_rows for part in cut_parts(pieces, part_records=300)]
    by_bytes = list(cut_parts(pieces, plain_bytes=10_000))

    assert by_rows == [300, 300, 300, 100]
    assert [part.num_rows for part in by_bytes] == [part.num_rows for part in cut_parts([whole], plain_bytes=10_000)]
    assert pa.concat_tables(by_bytes).equals(whole)
    assert PART_RECORDS == 262_144


def test_a_tuple_that_is_larger_than_a_part_stands_alone() -> None:
    assert [part.num_rows for part in cut_parts([tuple_table("a", "b" * 500, "c")], plain_bytes=100)] == [1, 1, 1]


def test_a_part_has_the_same_bytes_however_it_was_put_together() -> None:
    whole = tuple_table(*[f"{at:04d}" for at in range(100)])

    assert part_bytes(whole) == part_bytes(pa.concat_tables([whole.slice(0, 33), whole.slice(33)]))


def test_splits_are_counted_and_too_many_of_them_refused() -> None:
    counter = SplitCounter()
    tokens = pa.array([5, 6, 7]).to_numpy()
    counter.add(pa.array(["dev", "train", "dev"]), tokens)
    counter.add(pa.array(["train"]).dictionary_encode(), tokens[:1])

    assert counter.totals == {"dev": SplitTotals(records=2, tokens=12), "train": SplitTotals(records=2, tokens=11)}
    assert (counter.records, counter.tokens) == (4, 23)
    names = pa.array([str(at) for at in range(MAX_SPLITS)])
    with pytest.raises(InvalidInputError) as refusal:
        counter.add(names, pa.array([0] * MAX_SPLITS).to_numpy())
    assert refusal.value.code == ErrorCode.INPUT_INVALID


@pytest.mark.parametrize("more", [[1], [2**53 - 1] * 2048], ids=["one more", "more than 64 bits hold"])
def test_tokens_that_no_record_can_tell_are_refused(more: list[int]) -> None:
    counter = SplitCounter()
    counter.add(pa.array(["train"] * 2), pa.array([2**53 - 2, 1]).to_numpy())

    with pytest.raises(InvalidInputError) as refusal:
        counter.add(pa.array(["train"] * len(more)), pa.array(more).to_numpy())
    assert refusal.value.code == ErrorCode.INPUT_TOKENS
    assert counter.tokens == 2**53 - 1
