"""Members of shards by range: kept in memory, on disk, or some of each, they are the same."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from verifier.arrays import joined_context
from verifier.runs import _DICTIONARIES_BYTES, Run, Runs
from verifier.seen import Seen

BORDERS = ["b", "d"]


def run_of(*ids: str) -> Run:
    """Members whose bytes follow from their ids."""
    digests = np.array([[ord(name[0])] * 32 for name in ids], np.uint8).reshape(-1, 32)
    folded = pa.array(["s"] * len(ids)).dictionary_encode()
    rows = np.arange(len(ids), dtype=np.uint32)
    return Run(ids=pa.array(ids, pa.string()), context=(folded,) * 3, content=digests, leaves=digests + 1, rows=rows)


SHARDS = {0: run_of("a", "b", "c", "e"), 1: run_of(), 2: run_of("d", "f"), 3: run_of("b")}


@pytest.mark.parametrize(("kept_bytes", "files"), [(1 << 20, 0), (0, 3), (250, 2)])
def test_every_member_is_in_its_range_wherever_it_is_kept(tmp_path: Path, kept_bytes: int, files: int) -> None:
    runs = Runs(tmp_path, BORDERS, kept_bytes)
    for shard, run in reversed(SHARDS.items()):
        runs.put(shard, run)
    assert len(list(tmp_path.iterdir())) == files
    assert [_members(runs.get(number)) for number in range(runs.ranges)] == [
        [(0, "a", 0), (0, "b", 1), (3, "b", 0)],
        [(0, "c", 2), (2, "d", 0)],
        [(0, "e", 3), (2, "f", 1)],
    ]


def _members(seen: Seen) -> list[tuple[int, str, int]]:
    ids = seen.ids.to_pylist()
    assert seen.content[:, 0].tolist() == [ord(name[0]) for name in ids]
    assert seen.leaves[:, 31].tolist() == [ord(name[0]) + 1 for name in ids]
    assert seen.context[0].to_pylist() == ["s"] * len(ids)
    return list(zip(seen.shards.tolist(), ids, seen.rows.tolist(), strict=True))


_CONTEXTS = {
    "one": pa.array(["s"] * 7).dictionary_encode(),
    "few": pa.array(["s", "t", "s", "", "é", "t", "t"]).dictionary_encode(),
    "narrow": pa.array(["s", "t", "s", "u", "v", "t", "t"])
    .dictionary_encode()
    .cast(pa.dictionary(pa.int8(), pa.string())),
    "sliced": pa.array(["q", "r", "s", "t", "s", "u", "v", "t", "t"]).dictionary_encode()[2:],
    "plain": pa.array(["s", "t", "", "u", "v", "longer than others", "t"]),
    "plain, sliced": pa.array(["x", "s", "t", "", "u", "v", "longer than others", ""])[1:],
}


@pytest.mark.parametrize("name", _CONTEXTS)
@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_members_come_back_as_they_were(tmp_path: Path, name: str, kept_bytes: int) -> None:
    """Ids of every length, slices of larger arrays, rows in any order, and each kind of string beside them."""
    ids = pa.array(["", "a", "aé", "b", "bb", "c" * 1000, "d!", "e"])[1:]
    rng = np.random.default_rng(1)
    content, leaves = (rng.integers(0, 256, (9, 32), dtype=np.uint8)[1:8] for _ in range(2))
    rows = rng.permutation(7).astype(np.uint32)
    run = Run(ids=ids, context=(_CONTEXTS[name],) * 3, content=content, leaves=leaves, rows=rows)
    runs = Runs(tmp_path, BORDERS, kept_bytes)
    runs.put(5, run)
    runs.put(7, run)
    first = 0
    for number, count in enumerate((3, 2, 2)):
        seen, some = runs.get(number), slice(first, first + count)
        assert seen.ids.validate(full=True) is None
        assert seen.ids.to_pylist() == ids.to_pylist()[some] * 2
        assert [column.to_pylist() for column in seen.context] == [_CONTEXTS[name].to_pylist()[some] * 2] * 3
        assert seen.content.tobytes() == content[some].tobytes() * 2
        assert seen.leaves.tobytes() == leaves[some].tobytes() * 2
        assert seen.rows.tolist() == rows[some].tolist() * 2
        assert seen.shards.tolist() == [5] * count + [7] * count
        first += count


def test_strings_of_very_many_kinds_are_kept_as_they_are(tmp_path: Path) -> None:
    names = [f"source {number}" for number in range(5000)]
    many = pa.array(names).dictionary_encode()
    digests = np.zeros((5000, 32), np.uint8)
    ids = pa.array([f"{number:04}" for number in range(5000)])
    rows = np.arange(5000, dtype=np.uint32)
    runs = Runs(tmp_path, ["9"], 0)
    runs.put(0, Run(ids=ids, context=(many,) * 3, content=digests, leaves=digests, rows=rows))
    assert runs.get(0).context[1].to_pylist() == names


def test_what_stays_in_memory_of_runs_in_files_is_bounded(tmp_path: Path) -> None:
    """Dictionaries of few and long strings, another one in each shard."""
    runs, before = Runs(tmp_path, ["9"], 0), pa.total_allocated_bytes()
    digests = np.zeros((50, 32), np.uint8)
    ids, rows = pa.array([f"{number:02}" for number in range(50)]), np.arange(50, dtype=np.uint32)
    for shard in range(600):
        names = pa.array([f"{shard} {number} " + "x" * 1200 for number in range(50)]).dictionary_encode()
        runs.put(shard, Run(ids=ids, context=(names,) * 3, content=digests, leaves=digests, rows=rows))
    assert pa.total_allocated_bytes() - before < 20 << 20
    seen = runs.get(0)
    assert seen.context[1].to_pylist()[-1] == names[-1].as_py()
    assert len(seen) == 600 * 50


def test_equal_dictionaries_are_kept_once(tmp_path: Path) -> None:
    runs = Runs(tmp_path, BORDERS, 0)
    for shard in range(3):
        runs.put(shard, SHARDS[0])
    [(entries, kept)] = runs._dictionaries.items()
    assert entries == ("s",)
    assert runs._dictionaries_left == _DICTIONARIES_BYTES - kept.nbytes


@pytest.mark.parametrize(
    "absent",
    [
        pa.array(["a", None, "a", "a"]).dictionary_encode(),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0]), pa.array(["a", None])),
        pa.array(["a", None, "b", "a"]),
        pa.array(["a", "b", "c", "d"], pa.large_string()),
        pa.array(["a", "b", "c", "d"], pa.string_view()),
    ],
    ids=str,
)
def test_no_file_holds_what_is_no_string_of_a_member(tmp_path: Path, absent: Any) -> None:
    """It is refused before; should it get here, it is not to become another value."""
    run = replace(SHARDS[0], context=(absent,) * 3)
    with pytest.raises((TypeError, pa.ArrowInvalid)):
        Runs(tmp_path, BORDERS, 0).put(0, run)


def test_a_range_without_members(tmp_path: Path) -> None:
    assert len(Runs(tmp_path, BORDERS).get(1)) == 0


def test_a_file_that_was_cut_is_no_file_of_members(tmp_path: Path) -> None:
    runs = Runs(tmp_path, BORDERS, 0)
    runs.put(0, SHARDS[0])
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EOFError):
        runs.get(2)


def test_files_are_removed_while_the_work_goes_on(tmp_path: Path) -> None:
    runs = Runs(tmp_path, BORDERS, 0)
    for shard, run in SHARDS.items():
        runs.put(shard, run)
    (tmp_path / "another").touch()
    with ThreadPoolExecutor(2) as pool:
        runs.drop(pool)
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_strings_of_several_runs_become_one_dictionary() -> None:
    parts = [pa.array(values).dictionary_encode() for values in (["a", "a"], ["a"])]
    assert joined_context(parts).to_pylist() == ["a", "a", "a"]
    others = [*parts, pa.array(["b", "a"]).dictionary_encode()]
    assert joined_context(others).to_pylist() == ["a", "a", "a", "b", "a"]
    assert joined_context([*parts, pa.array(["b"])]).to_pylist() == ["a", "a", "a", "b"]


def test_a_null_never_stands_for_the_one_string_of_a_dictionary() -> None:
    """Nulls are refused before; should one get here, it is no member's value."""
    with pytest.raises((IndexError, TypeError)):
        joined_context([pa.array(values).dictionary_encode() for values in (["a"], ["a", None])])
