"""Members of shards by range: kept in memory, on disk, or some of each, they are the same."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from verifier.runs import Run, Runs, joined_context

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
    for shard, run in SHARDS.items():
        runs.put(shard, run)
    assert len(list(tmp_path.iterdir())) == files
    found = [[(shard, name, row) for shard, run in runs.get(n) for name, row in _members(run)] for n in range(3)]
    assert found == [
        [(0, "a", 0), (0, "b", 1), (3, "b", 0)],
        [(0, "c", 2), (2, "d", 0)],
        [(0, "e", 3), (2, "f", 1)],
    ]
    for number in range(runs.ranges):
        for (first, _), (second, _) in pairwise(runs.get(number)):
            assert first < second


def _members(run: Run) -> list[tuple[str, int]]:
    ids = run.ids.to_pylist()
    assert run.content[:, 0].tolist() == [ord(name[0]) for name in ids]
    assert run.leaves[:, 31].tolist() == [ord(name[0]) + 1 for name in ids]
    assert run.context[0].to_pylist() == ["s"] * len(ids)
    return list(zip(ids, run.rows.tolist(), strict=True))


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
