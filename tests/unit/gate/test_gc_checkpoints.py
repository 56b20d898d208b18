"""Checkpoints under retention: the last one of a finished run stays, the others and those of cancelled runs go."""

from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, NotFoundError
from shardrel.gate.call import perform
from shardrel.gate.facts import Evidence
from shardrel.gate.runs import cancel, finish, start
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord, Cut, Region, TensorEntry
from shardrel.records.descriptor import TENSOR_BYTES
from shardrel.records.transition import AdmitCheckpoint
from shardrel.store.layout import commit_key
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put, put_record, settle_create
from tests.support.command import Command, shardrel_in
from tests.support.retained import Retained, retained

RUN = "job"


@pytest.fixture
def scene() -> Retained:
    """Two releases, and a run on the second one with two checkpoints."""
    scene = retained(releases=2)
    start(scene.store, scene.made.dataset, "prod", scene.call(), run_id=RUN)
    checkpoint(scene, 0)
    checkpoint(scene, 1)
    return scene


def tensor(generation: int) -> bytes:
    return b"weights %d" % generation


def checkpoint(scene: Retained, generation: int) -> None:
    """A checkpoint of the one run."""
    checkpoint_of(scene, RUN, generation, tensor(generation))


def checkpoint_of(scene: Retained, name: str, generation: int, data: bytes | None = None) -> str:
    """Tensor, manifest, commit record, admission; the digest of the tensor."""
    run = scene.view.body.runs[name]
    assert run.permit is not None
    stored, _ = put(scene.store, data or f"{name} {generation}".encode(), TENSOR_BYTES)
    size = stored.size
    region = Region(
        offsets=(0,), sizes=(size,), object=stored, start=0, length=size, digest=stored.digest, elements=size,
        encoding="raw-little-endian.v1", rank=0, replicas=(0,), attempt="a", step=generation,
    )  # fmt: skip
    cut = Cut(step=generation, epoch=0, cursor=0, ledger=digest_of(b"ledger"))
    manifest = CheckpointManifest(
        run_id=name, root=run.root, permit=run.permit, generation=generation, attempt="a", world_size=1, cut=cut,
        order=None, tensors=(TensorEntry(name="w", shape=(size,), dtype="uint8", regions=(region,)),),
        state={"model": None}, required_state=("model",),
    )  # fmt: skip
    parent = None if run.head is None else run.head.commit
    record = CommitRecord(
        run_id=name, root=run.root, generation=generation, parent=parent, manifest=put_record(scene.store, manifest),
        attempt="a", operation_id=f"checkpoint-{name}-{generation}", permit=run.permit, tombstone_watermark=0,
        benchmark_fence=0, boundary=scene.view.body.retention.boundary, world_size=1, cut=cut,
    )  # fmt: skip
    encoded = json.encode(record)
    key = commit_key(name, generation)
    settle_create(scene.store.create(key, encoded), key)
    request = AdmitCheckpoint(
        run=name, generation=generation, commit=digest_of(encoded), parent=parent, step=generation, permit=run.permit
    )
    looked = Evidence(signers=frozenset(), cleared=scene.view.body.retention.boundary)
    perform(scene.store, scene.made.dataset, request, scene.call(), lambda _: looked)
    return stored.digest


def has(scene: Retained, generation: int) -> bool:
    return digest_of(tensor(generation)) in scene.objects()


def test_all_checkpoints_of_an_open_run_stay(scene: Retained) -> None:
    done = scene.gc()
    assert done.waiting == ()
    assert set(done.kept.commits.values()) == {(f"run:{RUN}",)}
    assert (has(scene, 0), has(scene, 1)) == (True, True)
    assert scene.roots[0] not in scene.objects()


def test_of_a_finished_run_the_last_checkpoint_and_its_root_stay_until_it_is_given_up(scene: Retained) -> None:
    finish(scene.store, scene.made.dataset, RUN, scene.call())
    scene.release(5)
    done = scene.gc()
    assert [(commit.run, commit.generation) for commit in done.kept.commits] == [(RUN, 1)]
    assert done.kept.roots[scene.roots[1]] == (f"checkpoint:{RUN}",)
    assert (has(scene, 0), has(scene, 1), scene.whole(scene.roots[1])) == (False, True, True)
    assert scene.store.read(commit_key(RUN, 0), max_bytes=1 << 20) is not None
    given_up = scene.gc(abandon=frozenset({RUN}))
    assert given_up.kept.runs == (RUN,)
    assert (has(scene, 1), scene.roots[1] in scene.objects()) == (False, False)
    assert (scene.gc().kept.commits, scene.gc(abandon=frozenset({RUN})).objects) == ({}, ())


def test_a_cancelled_run_leaves_nothing(scene: Retained) -> None:
    cancel(scene.store, scene.made.dataset, RUN, scene.call())
    scene.gc()
    assert (has(scene, 0), has(scene, 1)) == (False, False)


@pytest.mark.parametrize("damage", ["absent", "changed"])
def test_a_kept_checkpoint_that_cannot_be_read_stops_it(scene: Retained, damage: str) -> None:
    finish(scene.store, scene.made.dataset, RUN, scene.call())
    store, key = scene.store, commit_key(RUN, 1)
    assert isinstance(store, MemoryStore)
    stored = store.read(key, max_bytes=1 << 20)
    assert stored is not None
    store.delete(key, stored.version)
    if damage == "changed":
        store.create(key, stored.data.replace(b'"worldSize":1', b'"worldSize":2'))
    before = scene.objects()
    with pytest.raises((NotFoundError, IntegrityError)) as caught:
        scene.gc()
    wanted = {"absent": ErrorCode.STORAGE_ABSENT, "changed": ErrorCode.STORAGE_DIGEST}
    assert caught.value.code == wanted[damage]
    assert scene.objects() == before


def listed(shardrel: Command, scene: Retained, *more: str) -> list[tuple[int, str]]:
    line = ("checkpoint", "list", RUN, "--store", "store", "--dataset", scene.made.dataset, *more)
    return [(row["generation"], row["state"]) for row in shardrel(*line)["checkpoints"]]


def test_the_list_tells_which_were_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shardrel = shardrel_in(tmp_path, monkeypatch, capsys)
    scene = retained(LocalStore(tmp_path / "store"), releases=2)
    start(scene.store, scene.made.dataset, "prod", scene.call(), run_id=RUN)
    for generation in range(3):
        checkpoint(scene, generation)
    finish(scene.store, scene.made.dataset, RUN, scene.call())
    assert listed(shardrel, scene) == [(0, "ADMITTED"), (1, "ADMITTED"), (2, "ADMITTED")]
    scene.gc()
    assert listed(shardrel, scene) == [(0, "COLLECTED"), (1, "COLLECTED"), (2, "ADMITTED")]
    assert listed(shardrel, scene, "--limit", "2") == [(1, "COLLECTED"), (2, "ADMITTED")]
    assert listed(shardrel, scene, "--limit", "0") == []
