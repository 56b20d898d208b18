"""Files of fence entries: what people may write, and how a bad line is named."""

import json
from pathlib import Path

import pytest

from shardrel.canonical import json as canonical
from shardrel.canonical.text import text_digest
from shardrel.digest import digest_of, to_digest
from shardrel.errors import ErrorCode, FormatError, InvalidInputError
from shardrel.gate.fence_files import read_benchmarks, read_tombstones
from shardrel.records.fence import BenchmarkEntry

DIGEST = digest_of(b"content")
TEXT = "One two, three four five six seven eight nine ten eleven twelve thirteen fourteen."


def write(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "entries.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def test_tombstones_select_by_sample_source_version_or_content(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"sequence": 7, "sampleId": "s"},
        {"sequence": 8, "sourceId": "a"},
        {"sequence": 9, "sourceId": "a", "sourceVersion": 7, "reason": "gdpr.art-17"},
        {"sequence": 10, "contentDigest": DIGEST},
    )
    found = read_tombstones(path)
    assert [entry.sequence for entry in found] == [7, 8, 9, 10]
    assert (found[0].sample_id, found[1].source_id, found[3].content_digest) == ("s", "a", DIGEST)
    assert (found[2].source_version, found[2].reason) == ("7", "gdpr.art-17")


def test_a_version_is_the_same_as_number_and_as_text(tmp_path: Path) -> None:
    number = read_tombstones(write(tmp_path, {"sequence": 1, "sourceId": 4, "sourceVersion": 7}))
    text = read_tombstones(write(tmp_path, {"sequence": 1, "sourceId": "4", "sourceVersion": "7"}))
    other = read_tombstones(write(tmp_path, {"sequence": 1, "sourceId": "4", "sourceVersion": "07"}))
    assert number == text != other


def test_of_a_benchmark_text_only_digests_stay(tmp_path: Path) -> None:
    (entry,) = read_benchmarks(write(tmp_path, {"sequence": 1, "benchmark": "quiz", "text": TEXT}))
    raw = text_digest(TEXT)
    assert raw is not None
    assert entry.text_digest == to_digest(raw)
    assert entry.shingles is not None
    assert (entry.shingles.words, len(entry.shingles.digests)) == (13, 2)
    assert list(entry.shingles.digests) == sorted(set(entry.shingles.digests))
    assert b"seven" not in canonical.encode(entry)


def test_a_line_may_choose_the_width_and_how_many_are_a_hit(tmp_path: Path) -> None:
    (entry,) = read_benchmarks(
        write(tmp_path, {"sequence": 1, "benchmark": "quiz", "text": TEXT, "words": 5, "least": 3})
    )
    assert entry.shingles is not None
    assert (entry.shingles.words, entry.shingles.least, len(entry.shingles.digests)) == (5, 3, 10)
    assert len(entry.shingles.screens) == 80
    assert all(int(entry.shingles.screens[at : at + 8], 16) for at in range(0, 80, 8))


BROKEN = {
    "more than there are": {"least": 3},
    "a screen too few": {"screens": "00000000"},
    "half a screen": {"screens": "0" * 12},
    "the same twice": {"digests": ["0" * 64, "0" * 64]},
    "not in order": {"digests": ["1" * 64, "0" * 64]},
    "none": {"digests": [], "screens": ""},
    "too narrow": {"words": 2},
    "too wide": {"words": 65},
}


@pytest.mark.parametrize("name", BROKEN)
def test_shingles_that_contradict_themselves_are_no_record(name: str) -> None:
    sound = {"words": 13, "least": 2, "digests": ["0" * 64, "1" * 64], "screens": "0" * 16}
    entry = {"sequence": 1, "benchmark": "quiz", "contentDigest": None, "textDigest": DIGEST, "shingles": sound}
    assert canonical.decode(canonical.encode(entry), BenchmarkEntry).shingles is not None
    with pytest.raises(FormatError):
        canonical.decode(canonical.encode({**entry, "shingles": {**sound, **BROKEN[name]}}), BenchmarkEntry)


def test_a_short_benchmark_text_has_no_shingles(tmp_path: Path) -> None:
    (entry,) = read_benchmarks(write(tmp_path, {"sequence": 1, "benchmark": "quiz", "text": "two words"}))
    assert (entry.text_digest is not None, entry.shingles) == (True, None)


def test_a_benchmark_may_name_digests(tmp_path: Path) -> None:
    first, second = read_benchmarks(
        write(
            tmp_path,
            {"sequence": 1, "benchmark": "quiz", "contentDigest": DIGEST},
            {"sequence": 2, "benchmark": "quiz", "textDigest": DIGEST},
        )
    )
    assert (first.content_digest, second.text_digest) == (DIGEST, DIGEST)


BAD_TOMBSTONES: dict[str, object] = {
    "not-json": "{\n",
    "no-selector": {"sequence": 2},
    "two-selectors": {"sequence": 2, "sampleId": "s", "contentDigest": DIGEST},
    "version-alone": {"sequence": 2, "sourceVersion": "1"},
    "version-of-a-sample": {"sequence": 2, "sampleId": "s", "sourceVersion": "1"},
    "unknown-field": {"sequence": 2, "sampleId": "s", "why": "x"},
    "duplicate-key": '{"sequence": 2, "sampleId": "s", "sampleId": "t"}\n',
    "sequence-zero": {"sequence": 0, "sampleId": "s"},
    "sequence-text": {"sequence": "2", "sampleId": "s"},
    "sequence-bool": {"sequence": True, "sampleId": "s"},
    "sequence-repeats": {"sequence": 1, "sampleId": "s"},
    "sequence-jumps": {"sequence": 3, "sampleId": "s"},
    "sequence-too-large": {"sequence": 2**53, "sampleId": "s"},
    "empty-id": {"sequence": 2, "sampleId": ""},
    "long-id": {"sequence": 2, "sampleId": "é" * 513},
    "bool-id": {"sequence": 2, "sampleId": True},
    "float-version": {"sequence": 2, "sourceId": "a", "sourceVersion": 7.0},
    "upper-case-digest": {"sequence": 2, "contentDigest": DIGEST.upper()},
    "reason-in-words": {"sequence": 2, "sampleId": "s", "reason": "Because I say so"},
    "lone-surrogate": '{"sequence": 2, "sampleId": "\\ud800"}\n',
    "endless": '{"sequence": 2, "sampleId": "' + "s" * (1024 * 1024) + '"}\n',
}


@pytest.mark.parametrize("name", BAD_TOMBSTONES)
def test_a_bad_tombstone_is_named_by_its_line_and_not_by_its_content(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_tombstones(write(tmp_path, {"sequence": 1, "sampleId": "s"}, BAD_TOMBSTONES[name]))
    assert caught.value.code == ErrorCode.INPUT_FENCE_ENTRY
    assert caught.value.context == {"line": 2}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"sequence": 1, "sample": "zebra"}, "fields of an entry are sequence, sampleId,"),
        ({"sequence": 1, "zebra": "s"}, "fields of an entry are sequence, sampleId,"),
        ({"sequence": "zebra", "sampleId": "zebra"}, "sequence"),
        ({"sampleId": "zebra"}, "sequence"),
        ({"sequence": 1, "sampleId": "zebra", "contentDigest": "zebra"}, "contentDigest"),
        ({"sequence": 1, "sourceVersion": "zebra", "sampleId": "zebra"}, "sourceVersion"),
        ({"sequence": 1, "sampleId": "zebra", "reason": "zebra zebra"}, "reason"),
        ({"sequence": 1, "sampleId": ["zebra"]}, "sampleId"),
        ({"sequence": 1, "reason": "zebra"}, "one of sampleId, sourceId and contentDigest"),
        ('["zebra"]\n', "not one JSON object"),
        ('{"sampleId": "zebra"\n', "JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_without_its_content(tmp_path: Path, entry: object, words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_tombstones(write(tmp_path, entry))
    assert words in caught.value.message
    assert "zebra" not in caught.value.message


@pytest.mark.parametrize(
    "line",
    [
        {"sequence": 1, "text": TEXT},
        {"sequence": 1, "benchmark": "", "text": TEXT},
        {"sequence": 1, "benchmark": "quiz"},
        {"sequence": 1, "benchmark": "quiz", "text": "?!"},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "textDigest": DIGEST},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "words": 2},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "words": 65},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "least": 0},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "least": 3},
        {"sequence": 1, "benchmark": "quiz", "text": TEXT, "words": 13.0},
        {"sequence": 1, "benchmark": "quiz", "textDigest": DIGEST, "words": 13},
        {"sequence": 1, "benchmark": "quiz", "contentDigest": DIGEST, "least": 1},
    ],
)
def test_a_bad_benchmark_is_refused(tmp_path: Path, line: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_benchmarks(write(tmp_path, line))
    assert caught.value.code == ErrorCode.INPUT_FENCE_ENTRY


def test_a_file_without_entries_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as empty:
        read_tombstones(write(tmp_path, "\n\n"))
    with pytest.raises(InvalidInputError) as absent:
        read_tombstones(tmp_path / "none.jsonl")
    assert (empty.value.code, absent.value.code) == (ErrorCode.INPUT_EMPTY_FILE, ErrorCode.INPUT_NO_SUCH_FILE)
