"""Checkpoints for other programs and from them, read by those programs' own readers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

from shardrel.checkpoint.export import export_safetensors
from shardrel.checkpoint.export_dcp import export_dcp
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.import_safetensors import import_safetensors
from shardrel.checkpoint.imported import Wanted
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.save import save
from shardrel.data import ledger
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import (
    ORDER,
    ROOT,
    RUN,
    assert_equal_state,
    cut,
    damage,
    load_on,
    manifest_of,
    save_on,
    state,
    target,
)
from tests.support.gates import DATASET, key
from tests.support.ranks import all_good
from tests.support.runs import started_run


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            k: v for name, item in value.items() for k, v in flat(item, f"{path}.{name}" if path else str(name)).items()
        }
    return {path: value}


def bring_in(store: MemoryStore, path: Path) -> int:
    return import_safetensors(target(store), path, Wanted()).generation


def test_safetensors_own_reader_finds_every_tensor(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5, 3))
    written = load_file(export_safetensors(ObjectReader(store), manifest_of(store, 0), tmp_path / "out"))
    wanted = {name: value for name, value in flat(state(5)).items() if isinstance(value, torch.Tensor)}
    assert set(written) == set(wanted)
    for name, value in wanted.items():
        assert (written[name].dtype, written[name].shape) == (value.dtype, value.shape)
        assert torch.equal(written[name], value.resolve_conj())


def test_an_exported_file_brings_the_whole_state_back(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5, 2))
    path = export_safetensors(ObjectReader(store), manifest_of(store, 0), tmp_path)
    other = MemoryStore()
    started_run(other, ROOT, RUN)
    assert bring_in(other, path) == 0
    restored = all_good(load_on(other, 2))[0]
    assert restored is not None
    assert_equal_state(restored.state, state(5))
    assert restored.cut == ledger.genesis(ROOT)


def test_a_file_that_somebody_else_wrote_becomes_the_model(store: MemoryStore, tmp_path: Path) -> None:
    tensors = {
        "a.weight": torch.randn(7, 3).to(torch.bfloat16),
        "b": torch.arange(5, dtype=torch.uint8),
        "c": torch.tensor(1.5),
        "d": torch.empty(0, 4),
    }
    save_file(tensors, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    bring_in(store, tmp_path / "theirs.safetensors")
    restored = all_good(load_on(store))[0]
    assert restored is not None
    assert_equal_state(restored.state, {"model": dict(sorted(tensors.items()))})


def test_dcps_own_reader_finds_the_state(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5, 2))
    export_dcp(ObjectReader(store), manifest_of(store, 0), tmp_path / "dcp")
    wanted = state(5)
    into: dict[str, Any] = {
        "model": {name: torch.zeros_like(value) for name, value in wanted["model"].items()},
        "scheduler": {"last": 0},
    }
    with pytest.warns(UserWarning, match="single process"):
        dcp_load(into, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert into["scheduler"]["last"] == 5
    for name, value in wanted["model"].items():
        assert torch.equal(into["model"][name], value.resolve_conj())


def test_dcps_own_converter_finds_dicts_and_lists(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5, 2))
    export_dcp(ObjectReader(store), manifest_of(store, 0), tmp_path / "dcp")
    dcp_to_torch_save(tmp_path / "dcp", tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)
    assert whole["optimizer"]["param_groups"] == [{"lr": 0.1, "betas": (0.9, 0.99)}]
    assert torch.equal(whole["model"]["large"], state(5)["model"]["large"])


def test_nothing_is_written_over(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5))
    objects, manifest = ObjectReader(store), manifest_of(store, 0)
    export_safetensors(objects, manifest, tmp_path)
    for export in (export_safetensors, export_dcp):
        with pytest.raises(ShardrelError) as raised:
            export(objects, manifest, tmp_path)
        assert raised.value.code == ErrorCode.INPUT_INVALID


def test_damage_is_found_on_the_way_and_leaves_no_file(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5))
    manifest = manifest_of(store, 0)
    region = next(entry for entry in manifest.tensors if entry.name == "model/large").regions[0]
    damage(store, object_key(region.object.digest), lambda data: b"\1" + data[1:])
    with pytest.raises(ShardrelError) as raised:
        export_safetensors(ObjectReader(store), manifest, tmp_path)
    assert raised.value.code == ErrorCode.STORAGE_DIGEST
    assert not (tmp_path / "model.safetensors").exists()


def test_an_element_type_that_the_format_lacks_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    wide = {"model": {"z": torch.zeros(2, dtype=torch.complex128)}}
    save(SoloGroup(), store, wide, dataset=DATASET, run=RUN, cut=cut(1), order=ORDER, signer=key("admin"))
    with pytest.raises(ShardrelError) as raised:
        export_safetensors(ObjectReader(store), manifest_of(store, 0), tmp_path)
    assert raised.value.code == ErrorCode.CHECKPOINT_STATE_TYPE


def a_file(header: object, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one(**changes: object) -> dict[str, object]:
    return {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        a_file(b"{", b""),
        a_file(b"[]", b""),
        a_file(one(), b"\0" * 7),
        a_file(one(), b"\0" * 9),
        a_file(one(data_offsets=[1, 9]), b"\0" * 9),
        a_file(one(dtype="F33"), b"\0" * 8),
        a_file(one(shape=[3]), b"\0" * 8),
        a_file(one(shape=[-2]), b"\0" * 8),
        a_file(one(shape=[True, 2]), b"\0" * 8),
        a_file(one(more=1), b"\0" * 8),
        a_file({**one(), "v": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, b"\0" * 12),
        a_file(
            b'{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}',
            b"",
        ),
        a_file({"__metadata__": {"a": 1}}, b""),
    ],
)
def test_a_file_that_is_not_whole_and_sound_is_refused(store: MemoryStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.safetensors").write_bytes(data)
    with pytest.raises(ShardrelError) as raised:
        bring_in(store, tmp_path / "bad.safetensors")
    assert raised.value.code == ErrorCode.INPUT_CORRUPT
