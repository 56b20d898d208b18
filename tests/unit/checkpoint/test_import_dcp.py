"""Folders that torch.distributed.checkpoint wrote become checkpoints, and nothing in them is run."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed._shard.sharded_tensor.metadata import TensorProperties as ShardedTensorProperties
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from shardrel.checkpoint.dcp_metadata import read_metadata
from shardrel.checkpoint.export_dcp import export_dcp
from shardrel.checkpoint.import_dcp import METADATA, import_dcp
from shardrel.checkpoint.import_safetensors import import_safetensors_folder
from shardrel.checkpoint.imported import Wanted
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.sharded import alone
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError, ShardrelError
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from tests.support.checkpoints import (
    ROOT,
    RUN,
    assert_equal_state,
    load_on,
    manifest_of,
    restored_of,
    save_on,
    state,
    target,
)
from tests.support.gates import DATASET, key
from tests.support.gloo import run_gloo
from tests.support.process import peak_memory
from tests.support.ranks import all_good
from tests.support.runs import started_run
from tests.support.sharded_jobs import assert_same

DATA = "__0_0.distcp"


@pytest.fixture
def store() -> MemoryStore:
    return fresh()


def fresh() -> MemoryStore:
    store = MemoryStore()
    started_run(store, ROOT, RUN)
    return store


def saved(folder: Path, values: dict[str, Any]) -> Path:
    """Values as torch saves them."""
    alone(lambda: dcp_save(values, checkpoint_id=folder, no_dist=True))
    return folder


def everything() -> dict[str, Any]:
    base = torch.randn(6, 10, generator=torch.Generator().manual_seed(1))
    tensors = {
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 7),
        "bf16": base.to(torch.bfloat16),
        "fp8": base.to(torch.float8_e4m3fn),
        "complex": base[0].to(torch.complex128),
        "conjugate": base[0].to(torch.complex64).conj(),
        "negative": torch._neg_view(base.clone()),
        "negative complex": torch._neg_view(base.to(torch.complex64).conj()),
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "shared": base[1:3],
        "bool": base > 0,
        "int64": torch.arange(5),
        "uint16": torch.tensor([1, 65535], dtype=torch.uint16),
        "parameter": torch.nn.Parameter(base),
        "large": torch.randn(300, 401),
    }
    return {
        "model": tensors,
        "scheduler": {"last": 7, "rates": [0.1, 0.2], "betas": (0.9, 0.99), "name": "x", "none": None},
        "groups": [{"lr": 0.1, "params": [0, 1]}],
        "raw": b"\0\xff",
        "big": 2**70,
    }


def refused(call: Callable[[], object]) -> ShardrelError:
    with pytest.raises(ShardrelError) as raised:
        call()
    return raised.value


def code(folder: Path, wanted: Wanted | None = None) -> ErrorCode:
    """Why a folder isn't imported; nothing is committed then."""
    store = fresh()
    error = refused(lambda: import_dcp(target(store), folder, wanted or Wanted()))
    assert all_good(load_on(store)) == [None]
    return error.code


def test_what_torch_saves_comes_back_bit_for_bit(store: MemoryStore, tmp_path: Path) -> None:
    values = everything()
    import_dcp(target(store), saved(tmp_path / "dcp", values), Wanted())
    values["model"]["parameter"] = values["model"]["parameter"].detach()
    assert_equal_state(restored_of(store).state, values)


def test_an_optimizer_takes_its_imported_state(store: MemoryStore, tmp_path: Path) -> None:
    def made(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2)
        groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}]
        optimizer = torch.optim.AdamW(groups, lr=0.1)
        for _ in range(seed):
            model(torch.ones(3)).sum().backward()
            optimizer.step()
        return model, optimizer

    model, optimizer = made(2)
    folder = saved(
        tmp_path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "0": {"0": "no number"}}
    )
    import_dcp(target(store), folder, Wanted())
    state = restored_of(store).state
    other, fresh_one = made(1)
    other.load_state_dict(state["model"])
    fresh_one.load_state_dict(state["optimizer"])
    assert_same(fresh_one.state_dict(), optimizer.state_dict())
    assert state["0"] == {"0": "no number"}


def test_metadata_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.ones(2)})
    with open(folder / METADATA, "r+b") as file:
        file.truncate(1 << 33)
    assert code(folder) == ErrorCode.INPUT_CORRUPT


IMPORT = """
from pathlib import Path
from shardrel.checkpoint.import_dcp import import_dcp
from shardrel.checkpoint.imported import Target, Wanted
from shardrel.data import ledger
from shardrel.store.local import LocalStore
from shardrel.trust.keys import from_pem
folder, root = Path({!r}), {!r}
key = from_pem('admin', (folder / 'key.pem').read_bytes())
target = Target(store=LocalStore(folder / 'store'), dataset={!r}, run={!r}, cut=ledger.genesis(root), signer=key)
if {}:
    import_dcp(target, folder / 'dcp', Wanted())
pass"""


@pytest.mark.slow
def test_an_import_takes_a_few_pieces_of_memory(tmp_path: Path) -> None:
    """192 MiB in one tensor, and another that lies across."""
    started_run(LocalStore(tmp_path / "store"), ROOT, RUN)
    (tmp_path / "key.pem").write_bytes(key("admin").to_pem())
    large = torch.arange(12.0).reshape(12, 1).expand(12, 4 * 1024 * 1024).contiguous()
    saved(tmp_path / "dcp", {"w": large, "t": large[:2].t()})
    alone, doing = (peak_memory(IMPORT, str(tmp_path), ROOT, DATASET, RUN, does) for does in (0, 1))
    assert doing - alone < 180 * 1024 * 1024


def test_an_exported_checkpoint_comes_back(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5, 2))
    folder = export_dcp(ObjectReader(store), manifest_of(store, 0), tmp_path / "dcp")
    other = fresh()
    import_dcp(target(other), folder, Wanted())
    wanted = state(5)
    wanted["optimizer"]["state"] = {"0": wanted["optimizer"]["state"][0]}  # DCP's names are strings
    assert_equal_state(restored_of(other).state, wanted)
    assert {entry.name: entry.shape for entry in manifest_of(other, 0).tensors} == {
        entry.name: entry.shape for entry in manifest_of(store, 0).tensors
    }


def test_what_ranks_saved_loads_at_another_world_size(tmp_path: Path) -> None:
    for world in (2, 3):
        for form in ("dcp", "hf"):
            started_run(LocalStore(tmp_path / f"{form}-{world}" / "store"), ROOT, RUN)
    (tmp_path / "key.pem").write_bytes(key("admin").to_pem())
    run_gloo("tests.support.dcp_jobs:imports", 3, tmp_path)


def test_a_state_can_be_put_under_a_name_and_parts_left_out(store: MemoryStore, tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.ones(2), "extra": {"seen": {1, 2}, "n": 1}, "extras": 5})
    assert code(folder) == ErrorCode.INPUT_PICKLE
    import_dcp(target(store), folder, Wanted(under="model", leave_out=["extra"]))
    assert_equal_state(restored_of(store).state, {"model": {"w": torch.ones(2), "extras": 5}})
    assert code(folder, Wanted(leave_out=["w", "extra", "extras"])) == ErrorCode.INPUT_INVALID


def test_values_that_are_no_data_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.ones(2), "sampler": {"seen": {1}, "n": 1}, "path": Path("x")})
    error = refused(lambda: import_dcp(target(fresh()), folder, Wanted()))
    assert (error.code, error.context["paths"]) == (ErrorCode.INPUT_PICKLE, ["sampler.seen", "path"])


def test_a_run_with_a_checkpoint_goes_on_from_it(store: MemoryStore, tmp_path: Path) -> None:
    all_good(save_on(store, 5))
    error = refused(lambda: import_dcp(target(store), saved(tmp_path, {"w": torch.ones(2)}), Wanted()))
    assert error.code == ErrorCode.GATE_CHECKPOINT_ORDER


class Runs:
    """What the metadata of somebody hostile holds."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (__import__("os").system, ("touch touched",))


def test_metadata_that_would_run_something_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = saved(tmp_path / "dcp", {"w": torch.ones(2)})
    honest = pickle.loads((folder / METADATA).read_bytes())
    for field in ("planner_data", "storage_meta", "version"):
        changed = pickle.loads(pickle.dumps(honest))
        setattr(changed, field, Runs())
        (folder / METADATA).write_bytes(pickle.dumps(changed))
        assert code(folder) == ErrorCode.INPUT_PICKLE
    assert not (tmp_path / "touched").exists()


def edited(folder: Path, edit: Callable[[Any], None]) -> ErrorCode:
    """What becomes of a folder whose metadata is another, still one of DCP's classes."""
    before = (folder / METADATA).read_bytes()
    metadata = pickle.loads(before)
    edit(metadata)
    (folder / METADATA).write_bytes(pickle.dumps(metadata))
    found = code(folder)
    (folder / METADATA).write_bytes(before)
    return found


def test_metadata_that_contradicts_itself_or_the_files_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.ones(4, 3), "v": torch.ones(2), "n": 1})

    def chunks(metadata: Any) -> list[Any]:
        return metadata.state_dict_metadata["w"].chunks

    def place(metadata: Any, **changes: Any) -> None:
        for index, info in metadata.storage_data.items():
            if index.fqn == "w":
                for name, value in changes.items():
                    setattr(info, name, value)

    def no_elements(metadata: Any) -> None:
        chunks(metadata).clear()

    def more(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].chunks = chunks(metadata) * 100_000

    def one_place_twice(metadata: Any) -> None:
        first, *others = metadata.storage_data.values()
        for info in others:
            info.offset, info.length = first.offset, first.length

    def long_path(metadata: Any) -> None:
        metadata.planner_data = {"w": ("a",) * 65}

    def wider(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].size = torch.Size([2**40, 3])

    assert edited(folder, no_elements) == ErrorCode.CHECKPOINT_GAP
    assert edited(folder, wider) == ErrorCode.CHECKPOINT_GAP
    corrupt: list[Callable[[Any], None]] = [
        more,
        one_place_twice,
        long_path,
        lambda m: place(m, offset=0),
        lambda m: place(m, length=10**12),
        lambda m: place(m, length=-1),
        lambda m: place(m, length=0),
        lambda m: place(m, relative_path=f"../{folder.name}/{DATA}"),
        lambda m: place(m, relative_path=str(folder / DATA)),
        lambda m: setattr(m.state_dict_metadata["w"].properties, "dtype", torch.float64),
        lambda m: setattr(chunks(m)[0], "sizes", torch.Size([3, 4])),
        lambda m: setattr(chunks(m)[0], "offsets", torch.Size([1, 0])),
        lambda m: m.storage_data.clear(),
        lambda m: setattr(m, "storage_data", None),
        lambda m: setattr(m, "state_dict_metadata", {"w": 1}),
        lambda m: setattr(m, "planner_data", {"w": "w"}),
        lambda m: setattr(m, "planner_data", {"w": ("n",)}),
    ]
    for edit in corrupt:
        assert edited(folder, edit) == ErrorCode.INPUT_CORRUPT
    assert edited(folder, lambda m: place(m, relative_path="__7_0.distcp")) == ErrorCode.INPUT_NO_SUCH_FILE
    assert edited(folder, lambda m: place(m, transform_descriptors=["zstd"])) == ErrorCode.CHECKPOINT_STATE_TYPE
    assert edited(folder, lambda m: setattr(m, "planner_data", {"w": ("n", "x")})) == ErrorCode.CHECKPOINT_STATE_TYPE


def test_metadata_of_older_versions_is_read(store: MemoryStore, tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.arange(3.0)})
    metadata = pickle.loads((folder / METADATA).read_bytes())
    metadata.state_dict_metadata["w"].properties = ShardedTensorProperties(dtype=torch.float32)
    for field in ("storage_meta", "version"):
        del metadata.__dict__[field]
    (folder / METADATA).write_bytes(pickle.dumps(metadata, 2))
    import_dcp(target(store), folder, Wanted())
    assert torch.equal(restored_of(store).state["w"], torch.arange(3.0))


def test_every_truncation_of_the_metadata_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path / "dcp", {"w": torch.ones(2), "n": 1})
    whole = (folder / METADATA).read_bytes()
    assert set(read_metadata(whole).paths) == {"w", "n"}
    for length in range(len(whole)):
        with pytest.raises(ShardrelError) as raised:
            read_metadata(whole[:length])
        assert raised.value.code == ErrorCode.INPUT_CORRUPT


@pytest.mark.parametrize(
    ("file", "step"),
    [
        (METADATA, 31),
        (DATA, 101),
        pytest.param(METADATA, 1, marks=pytest.mark.slow),
        pytest.param(DATA, 5, marks=pytest.mark.slow),
    ],
)
def test_every_changed_byte_is_refused_or_changes_nothing_that_counts(tmp_path: Path, file: str, step: int) -> None:
    """Of the metadata, one changed byte can rename an entry, or be one of what is passed over."""
    folder = saved(tmp_path / "dcp", {"w": torch.arange(3.0), "n": 77})
    whole = (folder / file).read_bytes()
    store, done = fresh(), 0
    for at in range(0, len(whole), step):
        (folder / file).write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            import_dcp(target(store), folder, Wanted())
        except (InvalidInputError, RefusedError):
            continue
        values = list(restored_of(store).state.values())
        assert any(isinstance(value, torch.Tensor) and torch.equal(value, torch.arange(3.0)) for value in values)
        assert 77 in [value for value in values if isinstance(value, int)]
        store, done = fresh(), done + 1
    assert done < len(range(0, len(whole), step))


def test_a_large_tensor_is_imported_piece_by_piece(store: MemoryStore, tmp_path: Path) -> None:
    large = torch.arange(6_000_000, dtype=torch.float32).reshape(2000, 3000)
    import_dcp(target(store), saved(tmp_path / "dcp", {"w": large, "t": large.t()}), Wanted())
    assert all(len(entry.regions) == 2 for entry in manifest_of(store, 0).tensors)
    assert_equal_state(restored_of(store).state, {"w": large, "t": large.t()})


def folder_of(store: MemoryStore, folder: Path, wanted: Wanted | None = None) -> dict[str, Any]:
    import_safetensors_folder(target(store), folder, wanted or Wanted())
    return restored_of(store).state


def test_a_folder_of_safetensors_with_an_index_is_one_model(store: MemoryStore, tmp_path: Path) -> None:
    tensors = {"a": torch.ones(3), "b": torch.zeros(2, 2)}
    writer = HuggingFaceStorageWriter(str(tmp_path), fqn_to_index_mapping={"a": 1, "b": 2})
    alone(lambda: dcp_save(tensors, storage_writer=writer, no_dist=True))
    assert_equal_state(folder_of(store, tmp_path), {"model": tensors})
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    error = refused(lambda: folder_of(fresh(), tmp_path))
    assert error.code == ErrorCode.INPUT_NO_SUCH_FILE
    save_file({"c": torch.ones(1)}, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00002.safetensors"}}')
    assert refused(lambda: folder_of(fresh(), tmp_path)).code == ErrorCode.INPUT_CORRUPT


def test_one_tensor_in_two_files_is_an_overlap_and_a_lost_piece_a_gap(store: MemoryStore, tmp_path: Path) -> None:
    save_file({"a": torch.ones(3)}, tmp_path / "1.safetensors")
    shutil.copy(tmp_path / "1.safetensors", tmp_path / "2.safetensors")
    assert refused(lambda: folder_of(store, tmp_path)).code == ErrorCode.CHECKPOINT_OVERLAP
    (tmp_path / "1.safetensors").unlink()
    save_file({"a": torch.ones(3)}, tmp_path / "2.safetensors", {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [3]}}'})
    assert refused(lambda: folder_of(fresh(), tmp_path)).code == ErrorCode.CHECKPOINT_GAP


@pytest.mark.parametrize(
    "said", ["", "[]", "{}", '{"a": 1}', '{"a": {"saved_offsets": [-1]}}', '{"a": {"saved_offsets": []}}', "[" * 9999]
)
def test_places_that_make_no_sense_are_refused(tmp_path: Path, said: str) -> None:
    save_file({"a": torch.ones(3)}, tmp_path / "1.safetensors", {"DCP_SHARDING_INFO": said})
    assert refused(lambda: folder_of(fresh(), tmp_path)).code == ErrorCode.INPUT_CORRUPT
