"""Training on an encrypted release: the same samples in the same order, a cache of ciphertext, keys in memory alone."""

import itertools
from pathlib import Path

import pytest

from shardrel.checkpoint.group import Group
from shardrel.data import ledger
from shardrel.data.cache import ShardCache
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.train.admission import join
from shardrel.train.keys import VARIABLE
from shardrel.train.loader import loader
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import steps
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from shardrel.trust.key_files import make_key_file
from tests.support.encrypted import a_key
from tests.support.ranks import all_good, failures
from tests.support.training import TrainingWorld, training_world

PLAN = TrainPlan(columns=("text", "number"), global_batch=7, seed=3, block_shards=2, split="train")


def join_on(
    world: TrainingWorld, folder: Path, world_size: int, keys: list[KeyEncryption] | None
) -> list[PinnedRun | BaseException]:
    unlocked = None if keys is None else Unlocked(keys)

    def part(group: Group) -> PinnedRun:
        cache = ShardCache(folder / "cache", world.store)
        return join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN, unlocked=unlocked)

    return run_ranks(world_size, part)


def texts(world: TrainingWorld, folder: Path, keys: list[KeyEncryption] | None) -> list[str]:
    """What a job of one rank reads in its first steps."""

    def part(group: Group) -> list[str]:
        cache = ShardCache(folder / "cache", world.store)
        pin = join(
            group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN,
            unlocked=None if keys is None else Unlocked(keys),
        )  # fmt: skip
        assert "FileKey" not in repr(pin)
        batches = itertools.islice(steps(group, cache, pin, ledger.genesis(pin.root)), 9)
        return [text for batch in batches for text in batch.table.column("text").to_pylist()]

    [read] = all_good(run_ranks(1, part))
    return read


def test_an_encrypted_release_is_read_in_the_order_of_the_plain_one(tmp_path: Path) -> None:
    key = a_key()
    for name in ("plain", "sealed"):
        (tmp_path / name).mkdir()
    plain = training_world(MemoryStore(), tmp_path / "plain")
    sealed = training_world(MemoryStore(), tmp_path / "sealed", encrypt=key)
    assert texts(sealed, tmp_path / "sealed", [key]) == texts(plain, tmp_path / "plain", None)
    cached = [path for path in (tmp_path / "sealed" / "cache").rglob("*") if path.is_file() and path.stat().st_size]
    assert {path.parts[-3] for path in cached} == {"sha256", "decoded"}
    assert not [path for path in cached if b"defghijabc" in path.read_bytes() or b"ARROW1" in path.read_bytes()]
    in_the_clear = [path for path in (tmp_path / "plain" / "cache").rglob("*") if path.is_file()]
    assert any(b"ARROW1" in path.read_bytes() for path in in_the_clear), "the search finds what is decoded"


def test_the_environment_names_the_key_of_each_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, key = make_key_file(tmp_path / "keys", "kek")
    world = training_world(MemoryStore(), tmp_path, encrypt=key)
    monkeypatch.setenv(VARIABLE, f"file:{path}")
    assert {pin.root for pin in all_good(join_on(world, tmp_path, 2, None))} == {world.root}
    monkeypatch.setenv(VARIABLE, "")
    assert {failure.code for failure in failures(join_on(world, tmp_path, 2, None))} == {ErrorCode.ENCRYPTION_READER}


def test_a_wrong_key_ends_every_rank_before_step_0(tmp_path: Path) -> None:
    world = training_world(MemoryStore(), tmp_path, encrypt=a_key())
    found = failures(join_on(world, tmp_path, 3, [a_key()]))
    assert [failure.code for failure in found] == [ErrorCode.ENCRYPTION_KEY] * 3


def test_a_worker_process_reads_with_the_key_of_its_rank(tmp_path: Path) -> None:
    key = a_key()
    world = training_world(LocalStore(tmp_path / "store"), tmp_path, encrypt=key)
    [pin] = all_good(join_on(world, tmp_path, 1, [key]))

    def part(group: Group) -> list[list[str]]:
        cache = ShardCache(tmp_path / "cache", world.store)
        begin = ledger.genesis(pin.root)
        own = itertools.islice(steps(group, cache, pin, begin), 3)
        worker = loader(group, cache, pin, begin, workers=1, steps=3)
        return [[text for batch in some for text in batch.table.column("text").to_pylist()] for some in (own, worker)]

    [[by_the_rank, by_its_worker]] = all_good(run_ranks(1, part))
    assert by_the_rank == by_its_worker
    assert len(by_the_rank) == 21
