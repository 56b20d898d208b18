import glob
import os
import re
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources import list_files
from shardrel.sources.source import Fingerprint


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def relatives(*sources: Path | str) -> list[str]:
    return [member.relative for member in list_files([str(source) for source in sources])]


def test_a_folder_is_read_recursively_in_byte_order_of_posix_paths(tmp_path: Path) -> None:
    touch(tmp_path, "d/b/2.parquet", "d/b-x.parquet", "d/B.jsonl", "a.jsonl.zst", "é.arrow", "z.ndjson.gz")

    assert relatives(tmp_path) == [
        "a.jsonl.zst",
        "d/B.jsonl",
        "d/b-x.parquet",
        "d/b/2.parquet",
        "z.ndjson.gz",
        "é.arrow",
    ]


def test_a_single_file_goes_by_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "deep/down/x.parquet")

    assert relatives(tmp_path / "deep/down/x.parquet") == ["x.parquet"]


def test_a_glob_is_relative_to_what_stands_before_its_wild_card(tmp_path: Path) -> None:
    touch(tmp_path, "in/a/x.parquet", "in/b/y.parquet", "in/b/notes.txt")

    assert relatives(f"{tmp_path}/in/*/*.parquet") == ["a/x.parquet", "b/y.parquet"]
    assert relatives(f"{tmp_path}/in/**/*.parquet") == ["a/x.parquet", "b/y.parquet"]


@pytest.mark.parametrize(
    "pattern",
    ["*", "*/*", "**/*.arrow", "**", "a/**", "**/b/*", "**/**/*.arrow", "[ab]/?.arrow", "*/b/c.arrow", ".*/*.arrow", "?/.h.arrow", "x*", "*/"],
)  # fmt: skip
def test_a_glob_means_what_it_means_to_the_library(tmp_path: Path, pattern: str) -> None:
    touch(tmp_path, "x.arrow", "a/x.arrow", "a/b/c.arrow", "b/b/c.arrow", "b/y.arrow", "a/.h.arrow", ".d/z.arrow")
    expected = {Path(name) for name in glob.glob(f"{tmp_path}/{pattern}", recursive=True) if Path(name).is_file()}
    if expected:
        assert {member.path for member in list_files([f"{tmp_path}/{pattern}"])} == expected
        return
    with pytest.raises(InvalidInputError) as refusal:
        list_files([f"{tmp_path}/{pattern}"])
    assert refusal.value.code == ErrorCode.INPUT_NO_SUCH_FILE


@pytest.mark.parametrize("pattern", ["{}", "{}/*", "{}/**", "{}/**/*.arrow", "{}/d*/**/*.arrow"])
def test_a_folder_that_cannot_be_listed_is_named_and_not_passed_over(tmp_path: Path, pattern: str) -> None:
    touch(tmp_path, "dir/x.arrow")
    # Even the superuser cannot list a folder whose path is too long.
    below = os.open(tmp_path / "dir", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=below)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=below)
        os.close(below)
        below = deeper
    os.close(below)
    with pytest.raises(InvalidInputError) as refusal:
        list_files([pattern.format(tmp_path) if pattern != "{}/*" else f"{tmp_path}/*/*/*" + "/*" * 18])
    assert refusal.value.code == ErrorCode.INPUT_NO_SUCH_FILE
    assert str(refusal.value.context["path"]).startswith(str(tmp_path / "dir"))


def test_a_link_to_a_folder_is_not_followed_by_a_double_star(tmp_path: Path) -> None:
    touch(tmp_path, "in/a/x.arrow", "elsewhere/y.arrow")
    (tmp_path / "in/b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInputError) as refusal:
        list_files([f"{tmp_path}/in/**/*.arrow"])
    assert refusal.value.code == ErrorCode.INPUT_INVALID
    assert relatives(f"{tmp_path}/in/*/*.arrow") == ["a/x.arrow", "b/y.arrow"]


def test_a_file_whose_name_has_wild_cards_is_that_file(tmp_path: Path) -> None:
    touch(tmp_path, "a[1].parquet", "a1.parquet")

    assert relatives(tmp_path / "a[1].parquet") == ["a[1].parquet"]


def test_names_that_begin_with_a_dot_are_no_part_of_a_folder(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet", ".hidden.parquet", ".git/y.parquet")

    assert relatives(tmp_path) == ["x.parquet"]


def test_notes_that_begin_with_an_underscore_are_no_part_of_a_folder_and_data_is(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet", "_SUCCESS", "_metadata", "_own.parquet", "k=1/_committed_7", "k=1/z.parquet")

    assert relatives(tmp_path) == ["_own.parquet", "k=1/z.parquet", "x.parquet"]


def test_a_folder_that_begins_with_an_underscore_is_data_or_not_and_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet", "_temporary/0/y.parquet")

    with pytest.raises(InvalidInputError) as caught:
        relatives(tmp_path)
    assert (caught.value.code, caught.value.context["path"]) == (ErrorCode.INPUT_INVALID, str(tmp_path / "_temporary"))


def test_what_is_named_itself_or_by_a_glob_may_begin_with_an_underscore(tmp_path: Path) -> None:
    touch(tmp_path, "_own.parquet", "_in/x.parquet")

    assert relatives(tmp_path / "_own.parquet") == ["_own.parquet"]
    assert relatives(tmp_path / "_in") == ["x.parquet"]
    assert relatives(f"{tmp_path}/*.parquet") == ["_own.parquet"]
    assert relatives(f"{tmp_path}/**/*.parquet") == ["_in/x.parquet", "_own.parquet"]


def test_beside_a_file_of_an_unknown_format_a_glob_is_named_that_picks_the_others(tmp_path: Path) -> None:
    touch(tmp_path, "README.md", "sub/x.jsonl")

    with pytest.raises(InvalidInputError) as refusal:
        relatives(tmp_path)
    assert refusal.value.code == ErrorCode.INPUT_UNKNOWN_FORMAT
    [glob] = re.findall(r"such as '(.+)'", refusal.value.message)
    assert relatives(glob) == ["sub/x.jsonl"]


def test_a_file_of_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet", "sub/README.md")

    with pytest.raises(InvalidInputError) as refusal:
        relatives(tmp_path)
    assert refusal.value.code == ErrorCode.INPUT_UNKNOWN_FORMAT
    assert refusal.value.context["path"] == str(tmp_path / "sub/README.md")


@pytest.mark.parametrize("source", ["absent.parquet", "*.parquet", "empty"])
def test_a_source_without_files_is_refused(tmp_path: Path, source: str) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(InvalidInputError) as refusal:
        relatives(tmp_path / source)
    assert refusal.value.code == ErrorCode.INPUT_NO_SUCH_FILE


def test_a_file_that_two_sources_name_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "x.parquet")

    for sources in [(tmp_path / "x.parquet",) * 2, (tmp_path,)]:
        with pytest.raises(InvalidInputError) as refusal:
            relatives(*sources)
        assert refusal.value.code == ErrorCode.INPUT_INVALID


def test_equal_names_in_two_folders_are_two_files(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.parquet", "b/x.parquet")

    assert relatives(tmp_path / "b", tmp_path / "a") == ["x.parquet", "x.parquet"]


def test_a_link_to_a_folder_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "in/x.parquet", "out/y.parquet")
    (tmp_path / "in/more").symlink_to(tmp_path / "out")

    with pytest.raises(InvalidInputError) as refusal:
        relatives(tmp_path / "in")
    assert refusal.value.code == ErrorCode.INPUT_INVALID


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (Path(str(tmp_path)) / b"\xff.parquet".decode("utf-8", "surrogateescape")).write_bytes(b"x")

    with pytest.raises(InvalidInputError) as refusal:
        relatives(tmp_path)
    assert refusal.value.code == ErrorCode.INPUT_INVALID


def test_a_fingerprint_tells_that_a_file_was_written_or_removed(tmp_path: Path) -> None:
    touch(tmp_path, "x.parquet")
    path = tmp_path / "x.parquet"
    before = Fingerprint.of(path)
    before.check(path)

    path.write_bytes(b"longer")
    with pytest.raises(InvalidInputError) as refusal:
        before.check(path)
    assert refusal.value.code == ErrorCode.SOURCE_CHANGED
    path.unlink()
    with pytest.raises(InvalidInputError) as refusal:
        before.check(path)
    assert refusal.value.code == ErrorCode.SOURCE_CHANGED


def test_an_empty_source_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        list_files([""])
    assert caught.value.code == ErrorCode.INPUT_NO_SUCH_FILE
    assert len(list_files(["."])) == 1


@pytest.mark.parametrize("source", ["x" * 300, f"{'x' * 300}.jsonl", f"{'x' * 300}/*.jsonl"])
def test_a_source_that_the_system_refuses_is_a_wrong_source(source: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        list_files([source])
    assert (caught.value.code, caught.value.context) == (ErrorCode.INPUT_NO_SUCH_FILE, {"path": source})
