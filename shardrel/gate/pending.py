"""Operation ids of this machine whose outcome is not known yet. Source: schemas/SPEC.md#operations.

A command without ``--operation-id`` makes one and keeps it in a small file until the outcome is known, so
that a plain re-run after a crash or an unknown outcome goes on with it. The file is locked while its
command lives: a second command of the same kind at the same time is another operation.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardrel import clock
from shardrel.canonical import json
from shardrel.digest import digest_of, raw_digest
from shardrel.errors import ErrorCode, InvalidInputError, OutcomeUnknownError, ShardrelError, UnavailableError
from shardrel.store.layout import check_name
from shardrel.trust.private_files import make_folder, sync_folder


@dataclass(frozen=True, slots=True)
class _Held:
    path: Path
    handle: int
    operation_id: str


@contextmanager
def operation(folder: Path | None, subject: Any, given: str | None) -> Iterator[str]:
    """The operation id to use inside of the block; errors that leave the outcome open carry it as ``operationId``.

    Args:
        folder: Where ids are kept; None keeps none.
        subject: What the command asks for (store, dataset, request), as canonical JSON allows it.
        given: The caller's own id, which is then used and not kept.

    Raises:
        InvalidInputError: ``input.invalid`` when the folder cannot be written.

    Effects: creates a file before the block; removes it after a known outcome, which is success or any
        error but ``OutcomeUnknownError`` and ``UnavailableError``.
    """
    with _kept(folder, subject, given) as operation_id:
        try:
            yield operation_id
        except (OutcomeUnknownError, UnavailableError) as err:
            raise type(err)(err.code, err.message, **{**err.context, "operationId": operation_id}) from err


@contextmanager
def _kept(folder: Path | None, subject: Any, given: str | None) -> Iterator[str]:
    if given is not None or folder is None:
        yield check_name(given, "operation id") if given is not None else clock.fresh_id()
        return
    try:
        held = _claim(folder, _key(subject))
    except OSError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the folder beside the keys that keeps unfinished operations cannot be written; "
            "name an operation of your own with --operation-id",
        ) from err
    try:
        yield held.operation_id
    except (OutcomeUnknownError, UnavailableError):
        raise
    except ShardrelError:
        held.path.unlink(missing_ok=True)
        raise
    else:
        held.path.unlink(missing_ok=True)
        with suppress(OSError):  # an id that came back would answer for the next such command
            sync_folder(held.path.parent)
    finally:
        os.close(held.handle)


def forget(folder: Path | None, subject: Any) -> None:
    """Drop the ids that are kept for a request whose effect is there: the next such command is a new operation.

    Effects: removes files; those of commands that live stay.
    """
    if folder is None:
        return
    for path in folder.glob(f"{_key(subject)}.*"):
        handle = _lock(path, os.O_RDWR)
        if handle is not None:
            path.unlink(missing_ok=True)
            sync_folder(folder)
            os.close(handle)


def _key(subject: Any) -> str:
    return raw_digest(digest_of(json.encode(subject))).hex()


def _claim(folder: Path, key: str) -> _Held:
    make_folder(folder)
    for path in sorted(folder.glob(f"{key}.*")):
        handle = _lock(path, os.O_RDWR)
        if handle is not None:
            return _Held(path, handle, path.name.partition(".")[2])
    fresh = clock.fresh_id()
    path = folder / f"{key}.{fresh}"
    handle = _lock(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    if handle is None:
        return _claim(folder, key)
    sync_folder(folder)
    return _Held(path, handle, fresh)


def _lock(path: Path, flags: int) -> int | None:
    """An open handle that holds the lock of a file that still is there; None when another command has it."""
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    if os.fstat(handle).st_nlink == 0:
        os.close(handle)
        return None
    return handle
