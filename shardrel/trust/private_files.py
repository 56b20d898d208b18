"""Files that hold private keys: created whole or not at all, and read only from where nobody else can write.

Source: schemas/SPEC.md#keys
"""

import contextlib
import os
import stat
from pathlib import Path

from shardrel import clock
from shardrel.errors import ErrorCode, InvalidInputError, TrustError

MAX_KEY_FILE = 64 * 1024
_ROOT = 0


def own_folder(folder: Path) -> None:
    """Make a folder for keys, or check the one that is there.

    Raises:
        InvalidInputError: ``input.key`` when something else has its name.
        TrustError: ``trust.key-file`` when somebody else may write to it.

    Effects: creates the folder with mode 0700.
    """
    try:
        make_folder(folder)
    except (FileExistsError, NotADirectoryError) as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "the folder of keys is no folder", key=folder.name) from err
    check_folder(folder)


def make_folder(folder: Path) -> None:
    """Make a folder durable, for its owner alone where it is new.

    Effects: as said, and its names, and those of the folders above it on the same file system, which may be those of
        a process that died before it came to that, are durable.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    device = folder.stat().st_dev
    for one in (folder.resolve(), *folder.resolve().parents):
        if not os.access(one, os.R_OK) or one.stat().st_dev != device:
            return
        sync_folder(one)


def keep_out_of_git(folder: Path, *, fresh: bool) -> None:
    """Have git take no notice of keys, which ``git add`` would else take along.

    Args:
        folder: Of the keys.
        fresh: It was made for them. In any other one there may be what git shall see.

    Effects: a file ``.gitignore`` in the folder ``.shardrel`` above, else in the folder where that is fresh; twice is
        harmless, and where none can be written there is none.
    """
    ours = folder.absolute().parent
    into = ours if ours.name == ".shardrel" else folder if fresh else None
    if into is not None and into.is_dir() and not (into / ".gitignore").exists():
        with contextlib.suppress(OSError):
            create(into / ".gitignore", b"*\n", 0o644)


def check_folder(folder: Path) -> None:
    """Check that nobody else may put a key into a folder; one that is not there holds none.

    Raises:
        TrustError: ``trust.key-file``.
    """
    if folder.exists():
        os.close(_open_folder(folder))


def create_private(path: Path, data: bytes) -> bool:
    """Create a file that its owner alone may read, durable; False where there is one."""
    return create(path, data, 0o600)


def create(path: Path, data: bytes, mode: int) -> bool:
    """Create a file whole and durable; False where there is one."""
    scratch = path.with_name(f".{path.name}.{clock.fresh_id()}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(scratch)
    sync_folder(path.parent)
    return True


def read_private(path: Path) -> bytes:
    """The bytes of a private file, through its folder, so that neither is exchanged after it was checked.

    Raises:
        InvalidInputError: ``input.key`` when there is no such file, or nothing can be read of it.
        TrustError: ``trust.key-file`` when it is no plain file, others may read it, somebody else owns it,
            or somebody else may write to its folder.
    """
    try:
        folder = _open_folder(path.parent)
    except FileNotFoundError as err:
        raise _absent(path) from err
    try:
        handle = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError as err:
        raise _absent(path) from err
    except OSError as err:
        raise _refused("the private key file cannot be opened", path.stem) from err
    finally:
        os.close(folder)
    try:
        _check_file(os.fstat(handle), path.stem)
    except TrustError:
        os.close(handle)
        raise
    try:
        with os.fdopen(handle, "rb") as file:
            return file.read(MAX_KEY_FILE)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "the private key file cannot be read", key=path.stem) from err


def _absent(path: Path) -> InvalidInputError:
    message = f"there is no private key {path.stem} in {path.parent}"
    return InvalidInputError(ErrorCode.INPUT_KEY, message, key=path.stem, folder=str(path.parent))


def _check_file(about: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
        raise _refused("a private key is a plain file that only its owner may read; chmod 600 it", name)
    if not _ours(about):
        raise _refused("somebody else owns the private key file", name)


def _open_folder(folder: Path) -> int:
    """An open folder that nobody else may write to. A missing one raises ``FileNotFoundError``."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as err:
        raise _refused("the folder of keys cannot be opened", folder.name) from err
    about = os.fstat(handle)
    if about.st_mode & 0o022 or not _ours(about):
        os.close(handle)
        raise _refused("others may write to the folder of keys; chmod 700 it", folder.name)
    return handle


def _ours(about: os.stat_result) -> bool:
    """Whether the user, or the superuser, owns it; to the superuser every owner is as good as himself."""
    return os.geteuid() == _ROOT or about.st_uid in (_ROOT, os.geteuid())


def _refused(message: str, name: str) -> TrustError:
    return TrustError(ErrorCode.TRUST_KEY_FILE, message, key=name)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
