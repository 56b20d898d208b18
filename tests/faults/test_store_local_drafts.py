"""Drafts that killed writers leave are removed, and those of writers that live, or are only stopped, are not."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardrel.digest import digest_of
from shardrel.store import drafts
from shardrel.store.layout import object_key, run_key
from shardrel.store.local import LocalStore
from shardrel.store.port import Written
from shardrel.store.probe import SHORT, probe

RECORD = run_key("run-1")

# Stands still between the draft and its name, until a line comes.
HALF_WAY = """
import os, sys
from shardrel.store.layout import run_key
from shardrel.store.local import LocalStore

link = os.link

def late(*args, **kwargs):
    print("half", flush=True)
    sys.stdin.readline()
    link(*args, **kwargs)

os.link = late
print(type(LocalStore(sys.argv[1]).create(run_key("late"), b"late")).__name__, flush=True)
"""


@contextmanager
def half_way(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a draft."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_WAY, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "tmp"))


def test_the_first_write_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    with half_way(tmp_path) as process:
        process.kill()
        process.wait()
    assert len(left(tmp_path)) == 1
    assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), Written)
    assert left(tmp_path) == []


def test_a_stopped_writer_keeps_its_draft_and_finishes(tmp_path: Path) -> None:
    with half_way(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), Written)
        assert len(left(tmp_path)) == 1
        process.send_signal(signal.SIGCONT)
        shown, _ = process.communicate("go on\n", timeout=30)
        assert shown == "Written\n"
    stored = LocalStore(tmp_path).read(run_key("late"), max_bytes=10)
    assert stored is not None
    assert stored.data == b"late"
    assert left(tmp_path) == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_draft_that_is_held_stays_and_is_gone_afterwards(folder: int, tmp_path: Path) -> None:
    with drafts.draft(folder, memoryview(b"bytes"), 0o600) as name:
        assert drafts.sweep(folder) == 0
        assert (tmp_path / name).read_bytes() == b"bytes"
    assert os.listdir(folder) == []


def test_a_sweep_between_a_draft_and_its_lock_costs_a_new_name(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, swept = drafts.fcntl.flock, []

    def late(file: int, operation: int) -> None:
        if not swept:
            swept.append(None)
            swept[0] = drafts.sweep(folder)
        lock(file, operation)

    monkeypatch.setattr(drafts.fcntl, "flock", late)
    with drafts.draft(folder, memoryview(b"bytes"), 0o600) as name:
        assert swept == [1]
        assert (tmp_path / name).read_bytes() == b"bytes"


def test_only_drafts_are_swept(folder: int, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.write_bytes(b"outside")
    (tmp_path / ("a" * 32)).mkdir()
    (tmp_path / ("b" * 32)).symlink_to(outside)
    os.mkfifo(tmp_path / ("c" * 32))
    (tmp_path / "notes.txt").write_bytes(b"somebody's")
    (tmp_path / ("d" * 32)).write_bytes(b"a draft")
    before = set(os.listdir(folder))
    assert drafts.sweep(folder) == 1
    assert before - set(os.listdir(folder)) == {"d" * 32}
    assert outside.read_bytes() == b"outside"


def test_an_object_outlives_the_draft_that_it_was(tmp_path: Path) -> None:
    """A writer that died between the link and the end of its draft left two names of one file."""
    store = LocalStore(tmp_path)
    key = object_key(digest_of(b"bytes"))
    store.create(key, b"bytes")
    os.link(tmp_path / key, tmp_path / "tmp" / ("e" * 32))
    assert isinstance(LocalStore(tmp_path).create(RECORD, b"1"), Written)
    assert left(tmp_path) == []
    stored = store.read(key, max_bytes=10)
    assert stored is not None
    assert stored.data == b"bytes"


def test_writers_that_sweep_all_the_time_disturb_nobody(tmp_path: Path) -> None:
    stop = threading.Event()

    def sweeping() -> None:
        descriptor = os.open(tmp_path / "tmp", os.O_RDONLY)
        while not stop.is_set():
            drafts.sweep(descriptor)
        os.close(descriptor)

    LocalStore(tmp_path).create(RECORD, b"1")

    def write(number: int) -> Any:
        data = b"%d" % number
        return LocalStore(tmp_path).create(object_key(digest_of(data)), data)

    with ThreadPoolExecutor(6) as pool:
        sweepers = [pool.submit(sweeping) for _ in range(2)]
        try:
            outcomes = list(pool.map(write, range(150)))
        finally:
            stop.set()
        for sweeper in sweepers:
            sweeper.result()
    assert all(isinstance(outcome, Written) for outcome in outcomes)


def test_a_probe_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    probe(LocalStore(tmp_path), SHORT).require()
    assert os.listdir(tmp_path / "probe") == []


def test_a_folder_that_holds_something_is_kept(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create(RECORD, b"1")
    store.drop_folder("runs/run-1/")
    store.drop_folder("runs/nobody/")
    assert store.read(RECORD, max_bytes=10) is not None
