"""What is flushed to the disk, and when. A killed process cannot show it; only a lost machine would."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from shardrel.digest import digest_of
from shardrel.store.layout import attestation_key, gate_key, run_key
from shardrel.store.local import LocalStore
from shardrel.store.port import AlreadyPresent, Unknown, Written

STATE = gate_key("data")
RECORD = run_key("run-1")
MARKS = {"link": "name", "rename": "name", "unlink": "unlink"}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(flush, inode), and (name, 0) when an object gets its name: in order, while everything really happens."""
    seen: list[tuple[str, int]] = []
    fsync = os.fsync

    def record_flush(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(("flush", os.fstat(descriptor).st_ino))

    monkeypatch.setattr(os, "fsync", record_flush)
    for call, mark in MARKS.items():
        monkeypatch.setattr(os, call, recording(getattr(os, call), (mark, 0), seen))
    return seen


def recording(call: Any, event: tuple[str, int], seen: list[tuple[str, int]]) -> Any:
    def run(*args: Any, **kwargs: Any) -> None:
        call(*args, **kwargs)
        seen.append(event)

    return run


def flushed(path: Path) -> tuple[str, int]:
    return ("flush", path.stat().st_ino)


def assert_durable(events: list[tuple[str, int]], root: Path, key: str) -> None:
    path = root / key
    name = events.index(("name", 0))
    assert flushed(path) in events[:name]
    assert flushed(path.parent) in events[name:]
    for folder in (path.parent, *path.parent.parents):
        if folder == root.parent:
            break
        assert flushed(folder.parent) in events[:name], folder


def test_bytes_are_durable_before_their_name_and_the_name_before_the_answer(
    tmp_path: Path, events: list[tuple[str, int]]
) -> None:
    root = tmp_path / "made" / "store"
    assert isinstance(LocalStore(root).create(RECORD, b"1"), Written)
    assert_durable(events, root, RECORD)
    assert flushed(tmp_path) in events


def test_folders_that_somebody_else_made_are_flushed_too(tmp_path: Path, events: list[tuple[str, int]]) -> None:
    (tmp_path / "runs" / "run-1").mkdir(parents=True)
    assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), Written)
    assert flushed(tmp_path) in events
    assert flushed(tmp_path / "runs") in events


def test_a_swap_is_durable_when_it_answers(tmp_path: Path, events: list[tuple[str, int]]) -> None:
    store = LocalStore(tmp_path / "store")
    first = store.swap(STATE, b"1", None)
    assert isinstance(first, Written)
    assert_durable(events, tmp_path / "store", STATE)
    events.clear()
    assert isinstance(store.swap(STATE, b"2", first.token), Written)
    path = tmp_path / "store" / STATE
    name = events.index(("name", 0))
    assert flushed(path) in events[:name]
    assert flushed(path.parent) in events[name:]


def test_bytes_that_are_already_there_are_made_durable(tmp_path: Path, events: list[tuple[str, int]]) -> None:
    path = tmp_path / RECORD
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1")
    assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), AlreadyPresent)
    assert {flushed(path), flushed(path.parent), flushed(path.parent.parent), flushed(tmp_path)} <= set(events)


def test_a_name_that_somebody_else_gave_is_durable_before_it_is_believed(
    tmp_path: Path, events: list[tuple[str, int]]
) -> None:
    """He may have been killed before he came to it; what is done now rests on it."""
    for key in (STATE, RECORD):
        (tmp_path / key).parent.mkdir(parents=True)
        (tmp_path / key).write_bytes(b"1")
    store = LocalStore(tmp_path)
    assert store.read(STATE, max_bytes=1) is not None
    assert store.look(RECORD) is not None
    folders = [flushed((tmp_path / key).parent) for key in (STATE, RECORD)]
    assert [event for event in events if event in folders] == folders
    events.clear()
    assert store.read(STATE, max_bytes=1) is not None
    assert events == []
    (tmp_path / STATE).write_bytes(b"2")
    assert store.read(STATE, max_bytes=1) is not None
    assert events == folders[:1]


def test_envelopes_that_lie_together_are_made_durable_together(tmp_path: Path, events: list[tuple[str, int]]) -> None:
    """One flush is for those that were there; an envelope that comes later has one of its own."""
    root = digest_of(b"root")
    keys = [attestation_key(root, digest_of(data)) for data in (b"1", b"2", b"3")]
    folder = (tmp_path / keys[0]).parent
    folder.mkdir(parents=True)
    for key, data in zip(keys[:2], (b"1", b"2"), strict=True):
        (tmp_path / key).write_bytes(data)
    store = LocalStore(tmp_path)
    assert all(store.read(key, max_bytes=1) for key in keys[:2])
    assert events == [flushed(folder)]
    (tmp_path / keys[2]).write_bytes(b"3")
    assert store.read(keys[2], max_bytes=1)
    assert events == [flushed(folder)] * 2


def test_what_this_process_wrote_is_not_made_durable_again_when_it_is_read(
    tmp_path: Path, events: list[tuple[str, int]]
) -> None:
    store = LocalStore(tmp_path)
    assert isinstance(store.create(RECORD, b"1"), Written)
    assert isinstance(store.swap(STATE, b"1", None), Written)
    events.clear()
    assert store.read(RECORD, max_bytes=1) is not None
    assert store.read(STATE, max_bytes=1) is not None
    assert events == []


def test_a_store_that_cannot_be_written_to_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), Written)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "fsync", refuse)
    stored = LocalStore(tmp_path).read(RECORD, max_bytes=1)
    assert stored is not None
    assert stored.data == b"1"


def test_the_first_write_flushes_the_folders_above_a_store_that_is_there(
    tmp_path: Path, events: list[tuple[str, int]]
) -> None:
    (tmp_path / "a" / "store").mkdir(parents=True)
    store = LocalStore(tmp_path / "a" / "store")
    store.create(RECORD, b"1")
    assert {flushed(tmp_path / "a"), flushed(tmp_path)} <= set(events)
    events.clear()
    store.create(RECORD, b"1")
    assert flushed(tmp_path / "a") not in events


def test_a_delete_is_durable_when_it_answers(tmp_path: Path, events: list[tuple[str, int]]) -> None:
    store = LocalStore(tmp_path)
    written = store.create(RECORD, b"1")
    assert isinstance(written, Written)
    events.clear()
    assert store.delete(RECORD, written.version)
    assert flushed((tmp_path / RECORD).parent) in events[events.index(("unlink", 0)) :]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_name_that_may_not_be_durable_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A full disk may show only when the folder is flushed; by then the new bytes have their name."""
    store = LocalStore(tmp_path)
    first = store.swap(STATE, b"1", None)
    written = store.create(RECORD, b"1")
    assert isinstance(first, Written)
    assert isinstance(written, Written)
    assert store.delete(RECORD, written.version)
    folders = {(tmp_path / key).parent.stat().st_ino for key in (STATE, RECORD)}
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino in folders:
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert isinstance(store.swap(STATE, b"2", first.token), Unknown)
    assert isinstance(store.create(RECORD, b"2"), Unknown)
    assert ((tmp_path / STATE).read_bytes(), (tmp_path / RECORD).read_bytes()) == (b"2", b"2")
