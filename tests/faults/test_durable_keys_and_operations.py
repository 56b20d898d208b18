"""Keys that a gate names, and ids of operations that a re-run needs, are on the disk before anything rests on them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from shardrel.gate.init import init
from shardrel.gate.pending import operation
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import ObjectKey, SwapOutcome, Token
from shardrel.trust import keyring
from tests.support import gates

SUBJECT = ["store", "dataset", "admit"]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Inodes that were made durable, in order; 0 where a file was removed."""
    seen: list[int] = []
    fsync, unlink = os.fsync, os.unlink

    def record(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(os.fstat(descriptor).st_ino)

    def remove(path: Path) -> None:
        unlink(path)
        seen.append(0)

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "unlink", remove)
    return seen


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_folders_of_keys_have_a_durable_name(tmp_path: Path, flushed: list[int]) -> None:
    keyring.ensure(tmp_path / "work" / "keys", ("admin",))
    assert {inode(tmp_path), inode(tmp_path / "work"), inode(tmp_path / "work" / "keys")} <= set(flushed)


def test_a_key_that_somebody_made_and_died_is_made_durable(tmp_path: Path, flushed: list[int]) -> None:
    keyring.ensure(tmp_path / "keys", ("admin",))
    flushed.clear()
    keyring.ensure(tmp_path / "keys", ("admin",))
    assert {inode(tmp_path), inode(tmp_path / "keys")} <= set(flushed)


def test_an_operation_is_durable_before_it_begins_and_gone_for_good_when_it_ends(
    tmp_path: Path, flushed: list[int]
) -> None:
    folder = tmp_path / "keys" / "operations"
    with operation(folder, SUBJECT, None):
        assert {inode(tmp_path), inode(tmp_path / "keys")} <= set(flushed)
        assert flushed[-1] == inode(folder)
    assert flushed[-2:] == [0, inode(folder)]


def test_an_operation_of_a_dead_command_is_durable_before_it_goes_on(tmp_path: Path, flushed: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt), operation(tmp_path, SUBJECT, None) as first:
        raise KeyboardInterrupt
    flushed.clear()
    with operation(tmp_path, SUBJECT, None) as again:
        assert again == first
        assert inode(tmp_path) in flushed


def test_an_init_that_finds_its_gate_lets_its_id_go(tmp_path: Path) -> None:
    """The one before was killed behind the swap."""

    class Dying(ForwardingStore):
        def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
            super().swap(key, data, expected)
            raise KeyboardInterrupt

    store = MemoryStore()
    call = replace(gates.call(), pending=tmp_path / "operations")
    with pytest.raises(KeyboardInterrupt):
        init(Dying(store), gates.DATASET, gates.a_policy(), call)
    assert len(list((tmp_path / "operations").iterdir())) == 1
    assert init(store, gates.DATASET, gates.a_policy(), call).already
    assert list((tmp_path / "operations").iterdir()) == []
