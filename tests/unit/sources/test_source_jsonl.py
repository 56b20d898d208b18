from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardrel.canonical.schema import record_schema
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources import open_source
from shardrel.sources.jsonl import JsonlSource, common_schema


def opened(tmp_path: Path, *lines: bytes | str, name: str = "x.jsonl") -> Any:
    path = tmp_path / name
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return open_source(path)


def rows(source: Any, **options: Any) -> list[Any]:
    return [row for batch in source.batches(**options) for row in batch.to_pylist()]


def test_types_are_inferred_over_all_lines(tmp_path: Path) -> None:
    source = opened(
        tmp_path,
        '{"i": 1, "f": 1, "u": 0, "s": "2026-01-31T12:00:00Z", "n": null, "l": [], "o": {"a": null}}',
        '{"f": 2.5, "i": -9223372036854775808, "u": 18446744073709551615, "b": true, "l": [null, [1]], "o": {"b": "x"}}',
    )

    assert source.schema == pa.schema(
        [
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("u", pa.uint64()),
            ("s", pa.string()),
            ("n", pa.null()),
            ("l", pa.list_(pa.list_(pa.int64()))),
            ("o", pa.struct([("a", pa.null()), ("b", pa.string())])),
            ("b", pa.bool_()),
        ]
    )
    first, second = rows(source)
    assert first["f"] == 1.0
    assert first["b"] is None
    assert first["o"] == {"a": None, "b": None}
    assert second["u"] == 2**64 - 1
    assert second["s"] is None
    assert second["l"] == [None, [1]]


@pytest.mark.parametrize("text", ["0.1", "5e-324", "1.7976931348623157e308", "-0.0", "123456789.123456789"])
def test_floats_are_the_nearest_double(tmp_path: Path, text: str) -> None:
    value = rows(opened(tmp_path, f'{{"f": {text}}}'))[0]["f"]

    assert value.hex() == float(text).hex()


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        (['{"a": 1}', '{"a": "1"}'], "a"),
        (['{"a": {"b": true}}', '{"a": {"b": 0}}'], "a.b"),
        (['{"a": [1, "x"]}'], "a"),
        (['{"a": 9007199254740993}', '{"a": 0.5}'], "a"),
        (['{"a": 18446744073709551615}', '{"a": -1}'], "a"),
        (['{"a": 18446744073709551616}'], "a"),
    ],
)
def test_values_that_no_one_type_holds_exactly_are_a_conflict(tmp_path: Path, lines: list[str], column: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        _ = opened(tmp_path, *lines).schema
    assert refusal.value.code == ErrorCode.SCHEMA_CONFLICT
    assert refusal.value.context["column"] == column
    assert refusal.value.context["path"] == str(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        b"", b"  ", b"[1]", b'"x"', b"null", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e400}', b'{"a": 01}',
        b'{"a": 1} {"b": 2}', b'{"a": 1', b'{"a": 1, "a": 1}', b'{"o": {"a": 1, "a": 2}}', b'{"l": [{"a": 1, "a": 2}]}',
        b'{"a": 1, "\\u0061": 2}', b'{"a" : 1, "a" : 2, "b": "\\":\\":"}', b'{"a": "\\ud800"}', b'{"a": "\\udc00\\ud800"}',
        b'{"a": "\x01"}', b"\xef\xbb\xbf{}", b"{'a': 1}", b'{"a": 1,}', b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
)  # fmt: skip
def test_a_line_that_is_not_one_strict_object_is_refused_with_its_row(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        opened(tmp_path, b'{"a": 1}', line, b'{"a": 2}')
    assert refusal.value.code == ErrorCode.INPUT_JSON
    assert refusal.value.context == {"path": str(tmp_path / "x.jsonl"), "row": 1}


@pytest.mark.parametrize("levels", [70, 81, 150, 330, 480, 700, 950, 5000])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}"), ('{"a" :[', "]}")])
def test_nesting_beyond_all_bounds_is_refused(tmp_path: Path, levels: int, before: str, after: str) -> None:
    line = f'{{"c": {before * levels}1{after * levels}}}'

    with pytest.raises(InvalidInputError) as refusal:
        record_schema(opened(tmp_path, line).schema)
    assert refusal.value.code in (ErrorCode.SCHEMA_UNSUPPORTED, ErrorCode.INPUT_JSON)


@pytest.mark.parametrize("line", [b'{"a": "\xff"}', b'{"\xc3": 1}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\xc0\x80"}'])
def test_bytes_that_are_not_utf8_are_refused_with_their_row(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        opened(tmp_path, b'{"a": "x"}', line)
    assert refusal.value.code == ErrorCode.INPUT_UTF8
    assert refusal.value.context["row"] == 1


def test_no_message_or_context_tells_the_content(tmp_path: Path) -> None:
    for line in ['{"a": "private", "a": 1}', '{"a": "private" 1}', '["private"]']:
        with pytest.raises(InvalidInputError) as refusal:
            opened(tmp_path, line)
        assert "private" not in f"{refusal.value} {refusal.value.context}"


def test_colons_and_quotes_in_text_are_no_twin_keys(tmp_path: Path) -> None:
    record = '{"a": "say \\"x\\": \\"y\\"", "b" :{"a"\t: "\\":"}}'

    assert rows(opened(tmp_path, record)) == [{"a": 'say "x": "y"', "b": {"a": '":'}}]


def test_line_ends_of_windows_and_a_missing_last_one_do_not_matter(tmp_path: Path) -> None:
    assert rows(opened(tmp_path, '{"a": 1}\r', '{"a": 2}')) == rows(opened(tmp_path, '{"a": 1}', '{"a": 2}', ""))


def test_lines_that_cross_the_border_of_a_chunk_stay_whole(tmp_path: Path) -> None:
    texts = [character * 700_000 for character in "abcd"]

    assert [row["a"] for row in rows(opened(tmp_path, *[f'{{"a": "{text}"}}' for text in texts]))] == texts


def test_batches_are_bounded(tmp_path: Path) -> None:
    source = opened(tmp_path, *[f'{{"a": {at}}}' for at in range(1000)])

    sizes = [batch.num_rows for batch in source.batches(batch_bytes=800)]

    assert max(sizes) <= 20
    assert sum(sizes) == source.num_rows == 1000


def test_several_files_are_read_into_one_schema(tmp_path: Path) -> None:
    left = opened(tmp_path, '{"a": 1, "b": null}', name="l.jsonl")
    right = opened(tmp_path, '{"c": "x", "a": 0.5}', name="r.jsonl")
    assert isinstance(left, JsonlSource)
    assert isinstance(right, JsonlSource)

    schema = common_schema([left, right])

    assert schema == pa.schema([("a", pa.float64()), ("b", pa.null()), ("c", pa.string())])
    assert rows(left, target=schema) == [{"a": 1.0, "b": None, "c": None}]
    assert rows(right, target=schema) == [{"a": 0.5, "b": None, "c": "x"}]


def test_a_conflict_between_files_names_the_file_that_does_not_fit(tmp_path: Path) -> None:
    left, right = opened(tmp_path, '{"a": 1}', name="l.jsonl"), opened(tmp_path, '{"a": "x"}', name="r.jsonl")

    with pytest.raises(InvalidInputError) as refusal:
        common_schema([left, right])
    assert refusal.value.code == ErrorCode.SCHEMA_CONFLICT
    assert refusal.value.context["path"] == str(tmp_path / "r.jsonl")


def test_a_file_that_changes_between_the_passes_is_refused(tmp_path: Path) -> None:
    source = opened(tmp_path, '{"a": 1}')
    (tmp_path / "x.jsonl").write_text('{"a": 2}\n')

    with pytest.raises(InvalidInputError) as refusal:
        rows(source)
    assert refusal.value.code == ErrorCode.SOURCE_CHANGED
