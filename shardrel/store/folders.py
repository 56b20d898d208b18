"""Folders and files of a local store, reached without following a link. Source: schemas/SPEC.md#store

Every step below the store's root is one ``openat`` with ``O_NOFOLLOW``, so that nothing that is
swapped in between a check and its use can lead out of the store.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, ShardrelError, UnavailableError

try:
    import fcntl
except ImportError as err:  # pragma: no cover
    raise ImportError("shardrel's local store needs a POSIX system") from err

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ALONE = 2  # names of a folder with none in it: its own, and the one that it has of itself
_WRITABLE_BY_OTHERS = 0o022
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_CANNOT_FLUSH = frozenset({errno.EROFS, errno.EINVAL})
_UNSAFE = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_SENTENCES = {
    errno.ENOSPC: "the store's disk is full: free some space and run the same command again",
    errno.EDQUOT: "the store's disk quota is used up: free some space and run the same command again",
    errno.EROFS: "the store's file system is read-only",
    errno.EACCES: "this account may not do that in the store's folder",
    errno.EPERM: "the system forbids that in the store's folder",
    errno.EMFILE: "too many files are open in this process",
    errno.EIO: "the store's disk reports an input/output error",
}


def sentence(err: OSError) -> str:
    """What happened, for people, without a path."""
    return _SENTENCES.get(err.errno or 0, f"the store's folder does not work: {os.strerror(err.errno or 0)}")


@contextmanager
def translated() -> Iterator[None]:
    """Turn what the system says into the store's errors.

    Raises:
        UnavailableError: ``store.access-denied``, ``store.unavailable``.
        IntegrityError: ``storage.unsafe-path``: a link, or a folder where a file should be.
    """
    try:
        yield
    except OSError as err:
        raise _as_ours(err) from err


def _as_ours(err: OSError) -> ShardrelError:
    if err.errno in _UNSAFE:
        return unsafe("a link or another thing lies where the store keeps a file or a folder")
    code = ErrorCode.STORE_DENIED if err.errno in _DENIED else ErrorCode.STORE_UNAVAILABLE
    return UnavailableError(code, sentence(err))


def unsafe(message: str) -> IntegrityError:
    """The error of a path that is not sound."""
    return IntegrityError(ErrorCode.STORAGE_UNSAFE_PATH, message)


def open_root(path: str) -> int | None:
    """Descriptor of the store's root; None when there is none yet. The root alone may be a link."""
    try:
        return _checked_folder(os.open(path, _FOLDER))
    except FileNotFoundError:
        return None
    except OSError as err:
        raise _as_call(err) from err


def _as_call(err: OSError) -> Exception:
    """A path that can be no folder's is the caller's mistake; anything else is told as it is."""
    if err.errno in _NO_FOLDER:
        return InvalidInputError(
            ErrorCode.INPUT_INVALID, f"the store's path is not a folder: {os.strerror(err.errno or 0)}"
        )
    return err


def make_root(path: str) -> int:
    """Open the root; make it, for its owner alone, when it is absent.

    Effects: makes folders; each is durable in its parent when this returns.
    """
    missing = path
    made: list[str] = []
    while not os.path.isdir(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    try:
        for folder in reversed(made):
            _make_private(folder)
    except OSError as err:
        raise _as_call(err) from err
    root = open_root(path)
    if root is None and os.path.islink(path):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "the store's path is a link to nowhere")
    if root is None:
        raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "the store's folder vanished while it was made")
    return root


def _make_private(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return  # a racing writer; a file in its place is refused when the root is opened
    os.chmod(path, 0o700)
    parent = os.open(os.path.dirname(path), _FOLDER)
    try:
        flush(parent)
    finally:
        os.close(parent)


def place(descriptor: int) -> tuple[tuple[int, int], bool]:
    """What tells an open folder from any other, its file system and its number there; and whether nothing is in it.

    A number is given again when its folder is gone. A folder that has others in it is not looked through.
    """
    found = os.fstat(descriptor)
    return (found.st_dev, found.st_ino), found.st_nlink <= _ALONE and not os.listdir(descriptor)


def permissions(descriptor: int) -> int:
    """The permission bits of an open folder."""
    return stat.S_IMODE(os.fstat(descriptor).st_mode)


def enter(parent: int, name: str) -> int | None:
    """Descriptor of a folder in a folder; None when it is absent."""
    try:
        return _checked_folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent))
    except FileNotFoundError:
        return None


def make(parent: int, name: str, mode: int) -> int:
    """Open a folder in a folder; make it, durably, when it is absent."""
    while (child := enter(parent, name)) is None:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            continue
        new = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
        try:
            os.fchmod(new, mode)  # whatever the umask says
            flush(parent)
        finally:
            os.close(new)
    return child


def open_file(parent: int, name: str) -> int | None:
    """Descriptor of a regular file in a folder, for reading; None when it is absent."""
    try:
        # NONBLOCK: a fifo in the place of a file must not hang the reader.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise unsafe("something that is not a regular file lies where the store keeps an object")
        _check_mode(status.st_mode)
    except BaseException:
        os.close(file)
        raise
    return file


def _checked_folder(folder: int) -> int:
    try:
        _check_mode(os.fstat(folder).st_mode)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _check_mode(mode: int) -> None:
    if mode & _WRITABLE_BY_OTHERS:
        raise unsafe(
            "a folder or file of the store can be written by group or others: run `chmod -R go-w` on the store"
        )


def flush(descriptor: int) -> None:
    """Make a file's bytes, or a folder's names, durable."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:  # macOS: fsync alone leaves the bytes in the drive's cache
        fcntl.fcntl(descriptor, full)
    else:
        os.fsync(descriptor)


def flush_read(descriptor: int) -> None:
    """Make a folder's names durable before one of them is believed; a file system that cannot be written to needs none."""
    try:
        flush(descriptor)
    except OSError as err:
        if err.errno not in _CANNOT_FLUSH:
            raise


def flush_above(path: str) -> None:
    """Make the name of a folder durable, and those of the folders above it on the same file system.

    Whoever made them may have died before he came to that. A folder that this account may not open was not made by it.
    """
    path = os.path.realpath(path)
    device = os.stat(path).st_dev
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        try:
            parent = os.open(path, _FOLDER)
        except PermissionError:
            return
        try:
            if os.fstat(parent).st_dev != device:
                return
            flush_read(parent)
        finally:
            os.close(parent)


@contextmanager
def locked(root: int, patience: float) -> Iterator[None]:
    """Hold the store's lock, among threads and processes.

    The system drops the lock of a killed process, so no lock is ever stale.

    Raises:
        UnavailableError: ``store.contention`` when somebody holds it for longer than ``patience`` seconds.
    """
    deadline = clock.monotonic() + patience
    pause = 0.0005
    while (lock := _try_lock(root)) is None:
        if clock.monotonic() > deadline:
            raise UnavailableError(ErrorCode.STORE_CONTENTION, "another process keeps the store's lock: is it stopped?")
        clock.sleep(pause * (0.5 + clock.jitter()))
        pause = min(2 * pause, 0.02)
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(root: int) -> int | None:
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A lock file that somebody removed or replaced protects nothing.
        if os.fstat(lock).st_ino == os.stat("lock", dir_fd=root, follow_symlinks=False).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None
