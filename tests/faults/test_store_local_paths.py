"""Links, foreign things and modes in a local store's folder, and a disk that says no."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, ShardrelError, UnavailableError
from shardrel.store import folders
from shardrel.store.folders import translated
from shardrel.store.layout import gate_key, object_key, operation_key, run_key
from shardrel.store.local import LocalStore
from shardrel.store.port import ObjectKey, Token, Written

STATE = gate_key("data")
RECORD = run_key("run-1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalStore:
    store = LocalStore(root)
    assert isinstance(store.create(RECORD, b"record"), Written)
    assert isinstance(store.swap(STATE, b"state", None), Written)
    return store


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"secret")
    return folder


def every_call(store: LocalStore, key: ObjectKey) -> Iterator[Callable[[], object]]:
    yield partial(store.read, key, max_bytes=100)
    yield partial(store.create, key, b"new")
    yield partial(store.swap, key, b"new", Token(digest_of(b"secret")))
    yield partial(store.delete, key, digest_of(b"secret"))


def assert_unsafe(store: LocalStore, key: ObjectKey) -> None:
    for call in every_call(store, key):
        with pytest.raises(IntegrityError) as refused:
            call()
        assert refused.value.code is ErrorCode.STORAGE_UNSAFE_PATH


@pytest.mark.parametrize("target", ["outside/secret", "store/gates/data/state", "store/runs/run-1/record", "nowhere"])
def test_a_link_in_the_place_of_an_object_is_never_followed(
    store: LocalStore, root: Path, outside: Path, target: str
) -> None:
    path = root / RECORD
    path.unlink()
    path.symlink_to(root.parent / target)
    assert_unsafe(store, RECORD)
    assert (outside / "secret").read_bytes() == b"secret"
    assert list(store.list("runs/")) == []


@pytest.mark.parametrize("level", ["runs", "runs/run-1"])
def test_a_link_in_the_place_of_a_folder_is_never_followed(
    store: LocalStore, root: Path, outside: Path, level: str
) -> None:
    (root / level).rename(root.parent / "moved")
    (root / level).symlink_to(root.parent / "moved")
    assert_unsafe(store, RECORD)
    assert list(store.list("")) == [STATE]


def test_a_link_in_the_place_of_the_drafts_folder_is_never_followed(
    store: LocalStore, root: Path, outside: Path
) -> None:
    (root / "tmp").rmdir()
    (root / "tmp").symlink_to(outside)
    with pytest.raises(IntegrityError):
        store.create(run_key("run-2"), b"new")
    assert [path.name for path in outside.iterdir()] == ["secret"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_not_a_file_is_refused_without_waiting(
    store: LocalStore, root: Path, make: Callable[[Path], None]
) -> None:
    (root / RECORD).unlink()
    make(root / RECORD)
    assert_unsafe(store, RECORD)


def test_the_root_itself_may_be_a_link(store: LocalStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    stored = LocalStore(tmp_path / "link").read(RECORD, max_bytes=10)
    assert stored is not None
    assert stored.data == b"record"


@pytest.mark.parametrize("level", ["", "runs", "runs/run-1", "runs/run-1/record"])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_what_others_can_write_is_not_trusted(store: LocalStore, root: Path, level: str, bits: int) -> None:
    path = root / level
    path.chmod(path.stat().st_mode | bits)
    with pytest.raises(IntegrityError) as refused:
        store.read(RECORD, max_bytes=10)
    assert refused.value.code is ErrorCode.STORAGE_UNSAFE_PATH


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        LocalStore(root).create(RECORD, b"1")
        LocalStore(root).swap(STATE, b"1", None)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*")) if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE((root / key).stat().st_mode) for key in (RECORD, STATE)} == {0o600}


def test_readers_whom_the_root_admits_may_read_what_is_new(root: Path) -> None:
    root.mkdir()
    root.chmod(0o750)
    LocalStore(root).create(RECORD, b"1")
    assert stat.S_IMODE((root / "runs").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / RECORD).stat().st_mode) == 0o640


def test_reading_makes_nothing(root: Path) -> None:
    store = LocalStore(root)
    assert store.read(RECORD, max_bytes=1) is None
    assert list(store.list("")) == []
    assert store.delete(RECORD, "version")
    assert not root.exists()


def test_a_root_that_can_be_no_folder_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        for ask in (lambda store: store.create(RECORD, b"1"), lambda store: store.read(RECORD, max_bytes=1)):
            with pytest.raises(InvalidInputError) as failed:
                ask(LocalStore(path))
            assert failed.value.code is ErrorCode.INPUT_INVALID


def test_names_outside_the_layout_are_not_listed(store: LocalStore, root: Path) -> None:
    (root / "runs/run-1/notes.txt").write_bytes(b"")
    (root / "objects").mkdir()
    (root / "objects/stray").write_bytes(b"")
    assert sorted(store.list("")) == [STATE, RECORD]


def test_changed_bytes_of_a_digest_addressed_object_are_handed_to_who_checks_them(
    store: LocalStore, root: Path
) -> None:
    key = object_key(digest_of(b"good"))
    written = store.create(key, b"good")
    assert isinstance(written, Written)
    (root / key).write_bytes(b"evil")
    stored = store.read(key, max_bytes=4, version=written.version)
    assert stored is not None
    assert stored.data == b"evil"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ErrorCode.STORE_UNAVAILABLE),
        (errno.EDQUOT, ErrorCode.STORE_UNAVAILABLE),
        (errno.EIO, ErrorCode.STORE_UNAVAILABLE),
        (errno.EACCES, ErrorCode.STORE_DENIED),
        (errno.EROFS, ErrorCode.STORE_DENIED),
        (errno.EPERM, ErrorCode.STORE_DENIED),
        (errno.ELOOP, ErrorCode.STORAGE_UNSAFE_PATH),
    ],
)
def test_what_the_system_says_becomes_a_code_without_a_path(number: int, code: ErrorCode) -> None:
    with pytest.raises(ShardrelError) as failed, translated():
        raise OSError(number, "a message", "/a/path")
    assert failed.value.code is code
    assert "/a/path" not in str(failed.value)


FULL_DISK = """
import resource, signal, sys
from shardrel.errors import UnavailableError
from shardrel.store.layout import gate_key, run_key
from shardrel.store.local import LocalStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = LocalStore(sys.argv[1])
token = store.swap(gate_key("data"), b"state", None).token
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for write in (lambda: store.create(run_key("run-1"), bytes(1 << 20)), lambda: store.swap(gate_key("data"), bytes(1 << 20), token)):
    try:
        write()
    except UnavailableError as err:
        print(err.code)
"""


def test_a_write_that_does_not_fit_leaves_everything_as_it_was(root: Path) -> None:
    """A limit on the size of files stands for a full disk: the write fails in the middle, for real."""
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(root)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["store.unavailable"] * 2
    assert list((root / "tmp").iterdir()) == []
    assert list(LocalStore(root).list("")) == [STATE]
    assert (root / STATE).read_bytes() == b"state"


DENIED = """
import os, sys
from shardrel.errors import UnavailableError
from shardrel.store.layout import run_key
from shardrel.store.local import LocalStore

store = LocalStore(sys.argv[1])
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
for call in (lambda: store.read(run_key("run-1"), max_bytes=10), lambda: store.create(run_key("run-2"), b"")):
    try:
        call()
    except UnavailableError as err:
        print(err.code)
"""


@pytest.mark.usefixtures("store")
def test_an_account_without_rights_is_denied(root: Path) -> None:
    root.chmod(0)
    done = subprocess.run([sys.executable, "-c", DENIED, str(root)], capture_output=True, text=True, check=True)
    root.chmod(0o700)
    assert done.stdout.split() == ["store.access-denied"] * 2


def test_a_draft_that_a_killed_process_left_is_harmless(store: LocalStore, root: Path) -> None:
    (root / "tmp" / "left").write_bytes(b"half")
    assert isinstance(store.create(operation_key("data", "one"), b"1"), Written)
    assert sorted(store.list("")) == sorted([STATE, RECORD, operation_key("data", "one")])


def test_a_lock_that_is_never_released_is_contention(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardrel.store.local._LOCK_PATIENCE", 0.05)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UnavailableError) as failed:
            store.swap(STATE, b"new", None)
    assert failed.value.code is ErrorCode.STORE_CONTENTION


def test_a_lock_file_that_was_replaced_is_not_trusted(store: LocalStore, root: Path) -> None:
    (root / "lock").unlink()
    stored = store.read(STATE, max_bytes=10)
    assert stored is not None
    assert isinstance(store.swap(STATE, b"new", stored.token), Written)


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_store_whose_disk_goes_away_is_not_an_empty_one(root: Path, store: LocalStore, left: str) -> None:
    away = root.rename(root.with_name("away"))
    if left == "an empty folder":  # as the place where a file system was mounted
        root.mkdir(mode=0o700)
    asked: list[Callable[[], object]] = [
        partial(store.look, RECORD),
        lambda: list(store.list("runs/")),
        *every_call(store, RECORD),
    ]
    for call in asked:
        with pytest.raises(UnavailableError) as gone:
            call()
        assert gone.value.code is ErrorCode.STORE_UNAVAILABLE
    assert not root.exists() or not list(root.iterdir())
    if root.exists():
        root.rmdir()
    away.rename(root)
    found = store.read(RECORD, max_bytes=100)
    assert found is not None
    assert found.data == b"record"


def test_a_store_that_was_put_back_from_a_copy_is_read(root: Path, store: LocalStore) -> None:
    copy = Path(shutil.copytree(root, root.with_name("copy")))
    shutil.rmtree(root)
    copy.rename(root)
    assert store.read(STATE, max_bytes=100) is not None


def test_a_folder_that_another_thread_makes_after_the_look_is_not_one_that_went_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, look, looks = LocalStore(tmp_path / "store"), folders.open_root, []

    def slow_look(path: str) -> int | None:
        looks.append(found := look(path))
        if len(looks) == 1:
            store.create(run_key("other"), b"1")
            store.create(run_key("another"), b"1")
        return found

    monkeypatch.setattr(folders, "open_root", slow_look)
    assert isinstance(store.create(run_key("mine"), b"1"), Written)
    assert looks[0] is None


def test_an_emptied_folder_is_away_also_where_its_number_is_given_again(root: Path, store: LocalStore) -> None:
    assert store.read(STATE, max_bytes=100) is not None
    for entry in root.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for call in (lambda: store.read(STATE, max_bytes=100), lambda: list(store.list("runs/"))):
        with pytest.raises(UnavailableError) as gone:
            call()
        assert gone.value.code is ErrorCode.STORE_UNAVAILABLE
