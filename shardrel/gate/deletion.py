"""Deleting exact versions, each read back. Source: schemas/SPEC.md#retention."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shardrel.records.sweep import Condemned
from shardrel.store.layout import object_key
from shardrel.store.port import Store

_BATCH = 256
_WORKERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What is gone, and what the store keeps."""

    gone: tuple[Condemned, ...] = ()
    locked: tuple[Condemned, ...] = ()

    def __add__(self, other: "Deleted") -> "Deleted":
        """Both."""
        return Deleted(gone=self.gone + other.gone, locked=self.locked + other.locked)


def delete_all(store: Store, objects: Sequence[Condemned], still_ours: Callable[[], None]) -> Deleted:
    """Delete these versions; those that are gone already count as gone.

    Args:
        store: Where they are.
        objects: What is condemned.
        still_ours: Asked before each batch; raises when another call deletes now.

    Raises:
        UnavailableError: The store does not answer; run it again.

    Effects: one delete an object.
    """
    gone: list[Condemned] = []
    locked: list[Condemned] = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        for start in range(0, len(objects), _BATCH):
            still_ours()
            batch = objects[start : start + _BATCH]
            for one, done in zip(batch, pool.map(lambda one: _delete(store, one), batch), strict=True):
                (gone if done else locked).append(one)
    return Deleted(gone=tuple(gone), locked=tuple(locked))


def _delete(store: Store, one: Condemned) -> bool:
    """Whether the version is gone: what the store says of a deletion is read back."""
    key = object_key(one.digest)
    return store.delete(key, one.version) and store.look(key, version=one.version) is None
