"""Take a scratch store away again."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from shardrel.store.port import ObjectKey, Store

# A bucket with versions shows the version below once the newest is gone; no drill swaps a key more often.
_ROUNDS = 256
_WORKERS = 8


def folder_of(store: Store) -> Path | None:
    """The folder of a local store; None for any other."""
    return Path(unquote(store.url.removeprefix("file://"))) if store.url.startswith("file://") else None


def missing_parents(store: Store) -> list[Path]:
    """Folders above a local store that are not there yet, the deepest first."""
    folder = folder_of(store)
    return [] if folder is None else [parent for parent in folder.parents if not parent.exists()]


def take_away(store: Store, parents: list[Path]) -> bool:
    """Delete everything of a store; False where something stays.

    Args:
        store: All of it is scratch.
        parents: Folders that were made with it; those that are empty go too.

    Raises:
        UnavailableError: The store does not answer.

    Effects: deletes every version of every object that a listing shows, or the folder.
    """
    folder = folder_of(store)
    if folder is None:
        return _emptied(store)
    shutil.rmtree(folder, ignore_errors=True)
    for parent in parents:
        with suppress(OSError):
            parent.rmdir()
    return not folder.exists()


def _emptied(store: Store) -> bool:
    with ThreadPoolExecutor(_WORKERS) as pool:
        for _ in range(_ROUNDS):
            keys = list(store.list(""))
            if not keys:
                return True
            if not all(pool.map(lambda key: _delete(store, key), keys)):
                return False
    return False


def _delete(store: Store, key: ObjectKey) -> bool:
    found = store.look(key)
    return found is None or store.delete(key, found.version)
