from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from publisher.mapping import Mapping, no_columns
from publisher.members import MemberReader, held_bytes, read_members
from shardrel.canonical.rows import content_digests
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.membership.columns import plain
from shardrel.records.snapshot import Columns
from shardrel.sources import SourceFile, open_source


def mapping(tokens: str | None = None, text: tuple[str, ...] | None = None, **columns: str) -> Mapping:
    taken = Columns(**{name: columns.get(name) for name in ("id", "source", "version", "split")})
    return Mapping(columns=taken, token_column=tokens, text_columns=text)


def tuples(reader: MemberReader, **options: Any) -> list[tuple[str, ...]]:
    found = []
    for batch in reader.batches(**options):
        found += list(zip(*[plain(column).to_pylist() for column in batch.members.strings], strict=True))
    return found


def refusal(sources: Path | list[str], how: Mapping) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        for _ in read_members(sources if isinstance(sources, list) else [str(sources)], how).batches():
            pass
    return caught.value


def test_the_default_rules_name_members_by_file_and_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["x", "y"]}), tmp_path / "b.parquet")
    (tmp_path / "a.jsonl").write_text('{"t": "z"}\n')
    files = {name: digest_of((tmp_path / name).read_bytes()) for name in ("a.jsonl", "b.parquet")}

    members = tuples(read_members([str(tmp_path)], mapping()))

    assert members == [
        ("a.jsonl#0", "a.jsonl", files["a.jsonl"], "train"),
        ("b.parquet#0", "b.parquet", files["b.parquet"], "train"),
        ("b.parquet#1", "b.parquet", files["b.parquet"], "train"),
    ]


def test_columns_become_tuple_fields_and_the_others_are_the_payload(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [7, 8], "src": ["s", "s"], "v": pa.array([1, -2], pa.int8()), "sp": ["train", "dev"], "text": ["x", "y"]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    reader = read_members([str(tmp_path)], mapping(id="id", source="src", version="v", split="sp"))

    (batch,) = reader.batches()

    assert tuples(reader) == [("7", "s", "1", "train"), ("8", "s", "-2", "dev")]
    assert batch.payload.column_names == ["text"]
    expected = content_digests(reader.record_schema, pa.table({"text": ["x", "y"]}))
    assert np.array_equal(batch.members.digests, expected.digests)
    assert batch.logical_bytes == expected.logical_bytes


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["7", "8"]), pa.array(["7", "8"], pa.large_string()), pa.array(["7", "8"], pa.string_view()),
        pa.array(["7", "8"]).dictionary_encode(), pa.array([7, 8], pa.uint64()), pa.array([7, 8]).dictionary_encode(),
    ],
    ids=lambda ids: str(ids.type),
)  # fmt: skip
def test_an_id_is_its_canonical_text_in_any_clothes(tmp_path: Path, ids: Any) -> None:
    table = pa.table({"id": ids, "t": ["x", "y"]})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)

    assert [member[0] for member in tuples(read_members([str(tmp_path)], mapping(id="id")))] == ["7", "8"]


@pytest.mark.parametrize(
    ("tokens", "counts"),
    [
        (pa.array([[1, 2], []]), [2, 0]),
        (pa.array([[1, 2], []], pa.large_list(pa.uint16())), [2, 0]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), [2, 2]),
        (pa.array([5, 0], pa.uint8()), [5, 0]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_tokens_are_the_length_of_a_list_or_an_integer(tmp_path: Path, tokens: Any, counts: list[int]) -> None:
    pq.write_table(pa.table({"k": tokens}), tmp_path / "x.parquet")

    (batch,) = read_members([str(tmp_path)], mapping(tokens="k")).batches()

    assert batch.tokens.tolist() == counts
    assert batch.payload.column_names == ["k"]


@pytest.mark.parametrize(
    ("column", "how", "code"),
    [
        (pa.array(["a", None, "c"]), mapping(id="v"), ErrorCode.INPUT_NULL_ID),
        (pa.array([None, None, None]), mapping(id="v"), ErrorCode.INPUT_NULL_ID),
        (pa.array(["a", "", "c"]), mapping(id="v"), ErrorCode.INPUT_FIELD_LENGTH),
        (pa.array(["a", "b" * 1025, "c"]), mapping(id="v"), ErrorCode.INPUT_FIELD_LENGTH),
        (pa.array(["a", None, "c"]), mapping(source="v"), ErrorCode.INPUT_NULL_FIELD),
        (pa.array([1, None, 3]), mapping(version="v"), ErrorCode.INPUT_NULL_FIELD),
        (pa.array(["a", None, "c"]).dictionary_encode(), mapping(split="v"), ErrorCode.INPUT_NULL_FIELD),
        (pa.array(["a", "b" * 4097, "c"]), mapping(split="v"), ErrorCode.INPUT_FIELD_LENGTH),
        (pa.array([1, None, 3]), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
        (pa.array([1, -1, 3]), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
        (pa.array([1, 2**64 - 1, 3], pa.uint64()), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
        (pa.array([1, 2**53, 3], pa.uint64()), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
        (pa.array([1, 2**53, 3], pa.int64()), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
        (pa.array([[1], None, []]), mapping(tokens="v"), ErrorCode.INPUT_TOKENS),
    ],
)
def test_a_value_that_is_refused_is_named_by_file_and_row(
    tmp_path: Path, column: Any, how: Mapping, code: ErrorCode
) -> None:
    rows = pa.table({"v": column, "t": ["x", "y", "z"]})
    first = rows.slice(0, 1)
    pq.write_table(pa.concat_tables([first, rows]), tmp_path / "x.parquet")

    err = refusal(tmp_path, how)

    bad = 0 if column.type == pa.null() else 2
    assert (err.code, err.context["path"], err.context["row"]) == (code, str(tmp_path / "x.parquet"), bad)
    assert err.context["column"] == "v"


@pytest.mark.parametrize(
    ("names", "how", "code"),
    [
        (["a"], mapping(id="b"), ErrorCode.INPUT_NO_SUCH_COLUMN),
        (["a"], mapping(tokens="b"), ErrorCode.INPUT_NO_SUCH_COLUMN),
        (["a", "b"], mapping(id="b", tokens="b"), ErrorCode.INPUT_NO_SUCH_COLUMN),
        (["a"], mapping(text=("b",)), ErrorCode.INPUT_NO_SUCH_COLUMN),
        (["a", "f"], mapping(id="f"), ErrorCode.INPUT_COLUMN_TYPE),
        (["a", "f"], mapping(tokens="f"), ErrorCode.INPUT_COLUMN_TYPE),
        (["a", "f"], mapping(text=("f",)), ErrorCode.INPUT_COLUMN_TYPE),
        (["a"], mapping(id="a"), ErrorCode.INPUT_NO_PAYLOAD),
        (["a", "_shardrel_x"], mapping(), ErrorCode.INPUT_RESERVED_COLUMN),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused_with_the_file(
    tmp_path: Path, names: list[str], how: Mapping, code: ErrorCode
) -> None:
    pq.write_table(pa.table({name: [0.5] if name == "f" else ["x"] for name in names}), tmp_path / "x.parquet")

    err = refusal(tmp_path, how)

    assert (err.code, err.context["path"]) == (code, str(tmp_path / "x.parquet"))


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.struct([("text", pa.string())]), pa.binary(), pa.null()])
def test_a_text_column_that_holds_texts_inside_of_something_else_is_refused(tmp_path: Path, kind: Any) -> None:
    pq.write_table(pa.table({"a": ["x"], "t": pa.nulls(1, kind)}), tmp_path / "x.parquet")

    assert refusal(tmp_path, mapping(text=("t",))).code == ErrorCode.INPUT_COLUMN_TYPE
    assert refusal(tmp_path, mapping(text=("t.text",))).code == ErrorCode.INPUT_NO_SUCH_COLUMN


def test_text_that_is_not_utf8_is_named_by_file_and_row_in_ids_and_in_the_payload(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"b", b"\xff"])
    broken = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"v": broken, "t": ["x", "y", "z"]}), tmp_path / "x.parquet")

    for how in (mapping(), mapping(id="v")):
        err = refusal(tmp_path, how)
        assert (err.code, err.context["row"]) == (ErrorCode.INPUT_UTF8, 2)
        assert err.context["path"] == str(tmp_path / "x.parquet")


def test_files_in_other_clothes_agree_and_nullability_is_joined(tmp_path: Path) -> None:
    strict = pa.schema([pa.field("t", pa.large_string(), nullable=False)])
    pq.write_table(pa.table([pa.array(["x"], pa.large_string())], schema=strict), tmp_path / "a.parquet")
    pq.write_table(pa.table({"t": pa.array(["y", None]).dictionary_encode()}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"t": "z"}\n')

    reader = read_members([str(tmp_path)], mapping())

    assert [field.nullable for field in reader.record_schema.fields] == [True]
    assert [value for batch in reader.batches() for value in batch.payload["t"].to_pylist()] == ["x", "y", None, "z"]


def test_files_that_disagree_are_refused_with_the_file_and_the_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": pa.array([1], pa.int64())}), tmp_path / "b.parquet")

    err = refusal(tmp_path, mapping())

    assert err.code == ErrorCode.SCHEMA_CONFLICT
    assert (err.context["path"], err.context["column"]) == (str(tmp_path / "b.parquet"), "n")


def test_json_lines_without_lines_have_no_say_in_the_schema(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(pa.Codec("gzip").compress(b"", asbytes=True))
    (tmp_path / "b.jsonl").write_text('{"t": "z"}\n')

    assert len(tuples(read_members([str(tmp_path)], mapping()))) == 1
    assert refusal([str(tmp_path / "a.jsonl.gz")], mapping()).code == ErrorCode.INPUT_NO_RECORDS


def test_threads_change_nothing(tmp_path: Path) -> None:
    for name in "abc":
        pq.write_table(pa.table({"t": [f"{name}{at}" * 20 for at in range(300)]}), tmp_path / f"{name}.parquet")
    reader = read_members([str(tmp_path)], mapping())

    with ThreadPoolExecutor(3) as pool:
        assert tuples(reader, pool=pool, batch_bytes=2000) == tuples(reader)


def test_an_error_in_a_thread_is_raised_where_it_is_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a", None], "t": ["x", "y"]}), tmp_path / "x.parquet")
    reader = read_members([str(tmp_path)], mapping(id="id"))

    with ThreadPoolExecutor(2) as pool, pytest.raises(InvalidInputError) as caught:
        list(reader.batches(pool))
    assert caught.value.code == ErrorCode.INPUT_NULL_ID


def test_no_columns_is_every_default_rule() -> None:
    assert no_columns() == mapping().columns


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_what_is_read_ahead_is_measured_as_it_unfolds(tmp_path: Path, suffix: str) -> None:
    """A dictionary's one long text, many times, is small as it lies in memory."""
    entry = pa.array(["x" * (1 << 16)])
    folded = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), entry)
    batch = pa.record_batch({"t": folded})
    source = written(tmp_path / f"a.{suffix}", pa.table(batch))
    assert batch.nbytes < 1 << 20
    assert held_bytes(source, batch) >= 400 << 16
    assert held_bytes(source, next(iter(source.batches()))) >= 400 << 16


def test_what_stays_in_a_mapped_file_takes_no_memory(tmp_path: Path) -> None:
    table = pa.table({"t": ["x" * 1000] * 100, "n": pa.array(range(100)), "l": [[1, 2, 3]] * 100})
    plain = written(tmp_path / "plain.arrow", table)
    (batch,) = plain.batches()
    assert held_bytes(plain, batch.select(["t", "n"])) == 0
    assert held_bytes(plain, batch.select(["l"])) >= 100 * 3 * 8  # a list may be copied
    for other in (
        written(tmp_path / "packed.arrow", table, compression="zstd"),
        written(tmp_path / "other.parquet", table),
    ):
        (batch,) = other.batches()
        assert held_bytes(other, batch) >= 100 * 1000


def written(path: Path, table: pa.Table, compression: str | None = None) -> SourceFile:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table)
    return open_source(path)


def test_what_is_made_beside_a_batch_counts_too(tmp_path: Path) -> None:
    written(tmp_path / "a.arrow", pa.table({"n": range(100_000), "t": ["x"] * 100_000}))
    by_rule, by_number = (read_members([str(tmp_path)], one) for one in (mapping(), mapping(source="n")))
    read = next(by_rule._read(1 << 30))
    held = [reader._held_bytes((0, 0, read[2])) for reader in (by_rule, by_number)]
    rows = read[2].num_rows
    assert rows > 50_000  # else the least that any batch counts as
    assert held[0] >= rows * (32 + 8 + 8 + len("a.arrow#99999"))
    assert held[1] >= held[0] + rows * len("99999")
