"""Imports whose numbers, names and nesting no program wrote: each is refused by a code, and ends nothing."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from shardrel.checkpoint.import_dcp import METADATA, import_dcp
from shardrel.checkpoint.import_safetensors import import_safetensors, import_safetensors_folder
from shardrel.checkpoint.imported import Wanted
from shardrel.checkpoint.leaves import MAX_ABSENT, grow
from shardrel.checkpoint.parameter_numbers import with_numbers
from shardrel.checkpoint.pickle_data import Name, meaning
from shardrel.checkpoint.safetensors_folder import INDEX, SHARDING
from shardrel.checkpoint.sharded import alone
from shardrel.checkpoint.state_tree import flatten, unflatten
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import ROOT, RUN, restored_of, target
from tests.support.runs import started_run

_DEEP = """
from shardrel.checkpoint.pickle_data import interpret, meaning
nested = interpret(b")" + b"\\x85" * 1_000_000 + b".", ())
try:
    meaning({}, nested)
except ValueError:
    print("refused")
"""


def fresh() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def code(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ShardrelError) as raised:
        call()
    return raised.value.code


def test_tuples_in_tuples_without_end_are_no_names() -> None:
    """In a process of its own: hashed, they end it."""
    done = subprocess.run([sys.executable, "-c", _DEEP], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "refused")
    assert meaning({Name("torch", "int8"): 1}, Name("torch", "int8")) == 1


def dcp(folder: Path, values: dict[str, Any], edit: Callable[[Any], None] = lambda _: None) -> MemoryStore:
    """A store with what torch saved, whose metadata is another, still one of DCP's classes."""
    alone(lambda: dcp_save(values, checkpoint_id=folder, no_dist=True))
    metadata = pickle.loads((folder / METADATA).read_bytes())
    edit(metadata)
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    store = fresh()
    import_dcp(target(store), folder, Wanted())
    return store


@pytest.mark.parametrize("offsets", [(), (0, 0)])
def test_a_chunk_of_two_numbers_of_dimensions_is_refused(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    def edit(metadata: Any) -> None:
        [[index, place]] = metadata.storage_data.items()
        [chunk] = metadata.state_dict_metadata["w"].chunks
        metadata.storage_data = {MetadataIndex(index.fqn, torch.Size(offsets)): place}
        metadata.state_dict_metadata["w"].chunks = [ChunkStorageMetadata(torch.Size(offsets), chunk.sizes)]

    assert code(lambda: dcp(tmp_path, {"w": torch.ones(4)}, edit)) == ErrorCode.INPUT_CORRUPT


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("l", 10**9), ErrorCode.CHECKPOINT_STATE_TYPE),
        (("l", -1), ErrorCode.INPUT_CORRUPT),
        (("l", 2**60), ErrorCode.INPUT_CORRUPT),
        (("\ud800",), ErrorCode.INPUT_CORRUPT),
    ],
)
def test_places_that_no_state_has_are_refused(tmp_path: Path, place: tuple[Any, ...], expected: ErrorCode) -> None:
    def edit(metadata: Any) -> None:
        metadata.planner_data = {"w": place}

    assert code(lambda: dcp(tmp_path, {"w": torch.ones(2)}, edit)) == expected


def test_absent_positions_count_over_all_lists() -> None:
    half = MAX_ABSENT // 2
    assert len(grow({("a", half): 1, ("b", half): 1})["a"]) == half + 1
    with pytest.raises(ShardrelError) as raised:
        grow({("a", half): 1, ("b", half + 1): 1})
    assert raised.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


def test_a_step_that_is_never_taken_may_be_any_number(tmp_path: Path) -> None:
    tensor = torch.arange(3.0).as_strided((3, 1), (1, 2**61))
    assert torch.equal(restored_of(dcp(tmp_path, {"m": {"w": tensor}})).state["m"]["w"], tensor)


@pytest.mark.parametrize("number", [10**4300, -(10**4299)], ids=["digits", "sign"])
def test_an_integer_of_too_many_digits_is_refused_when_it_is_saved(number: int) -> None:
    for state in ({"n": number}, {"n": {number: 1}}):
        assert code(lambda state=state: flatten(state, lambda _: False)) == ErrorCode.CHECKPOINT_STATE_TYPE
    longest = {"n": number // 10}
    assert unflatten(flatten(longest, lambda _: False)[0], {}) == longest


def test_keys_beyond_what_json_holds_are_no_parameters() -> None:
    large = {"$": "int", "v": str(2**60)}
    groups = [{"$": "dict", "v": [[large, 1], ["params", [0]]]}]
    tree = {"$": "dict", "v": [["state", {"$": "dict", "v": [[large, 1]]}], ["param_groups", groups], [large, 2]]}
    assert with_numbers({"o": tree}) == {"o": tree}


def safetensors(described: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(described).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("described", "data", "expected"),
    [
        ({"a": {"dtype": "U8", "shape": [1] * 13, "data_offsets": [0, 1]}}, b"0", ErrorCode.CHECKPOINT_STATE_TYPE),
        ({"a": {"dtype": "U8", "shape": [1] * 65, "data_offsets": [0, 1]}}, b"0", ErrorCode.CHECKPOINT_STATE_TYPE),
        ({"a": {"dtype": "U8", "shape": [0, 2**53], "data_offsets": [0, 0]}}, b"", ErrorCode.CHECKPOINT_STATE_TYPE),
        ({"\ud800": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"0", ErrorCode.INPUT_CORRUPT),
        ({"__metadata__": {SHARDING: "\ud800"}}, b"", ErrorCode.INPUT_CORRUPT),
    ],
)
def test_shapes_and_names_that_no_manifest_can_tell_are_refused(
    tmp_path: Path, described: dict[str, Any], data: bytes, expected: ErrorCode
) -> None:
    """A manifest of them could be written, and never read again."""
    file = tmp_path / "a.safetensors"
    file.write_bytes(safetensors(described, data))
    assert code(lambda: import_safetensors(target(fresh()), file, Wanted())) == expected
    assert code(lambda: import_safetensors_folder(target(fresh()), tmp_path, Wanted())) == expected


@pytest.mark.parametrize("said", ['{"weight_map":{"\\ud800":"a.safetensors"}}', '{"weight_map":{},"weight_map":{}}'])
def test_an_index_that_two_programs_would_read_in_two_ways_is_refused(tmp_path: Path, said: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(
        safetensors({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"0")
    )
    (tmp_path / INDEX).write_text(said)
    assert code(lambda: import_safetensors_folder(target(fresh()), tmp_path, Wanted())) == ErrorCode.INPUT_CORRUPT
