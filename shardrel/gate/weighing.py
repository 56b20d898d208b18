"""What objects that may be deleted are, and how large: for words to people, one look each."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shardrel.records.sweep import Condemned
from shardrel.store.layout import object_key
from shardrel.store.port import Store

_WORKERS = 16
_MOST = 10_000
_FIRST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Objects of a kind.

    Attributes:
        name: ``parquet``, ``record`` or ``bytes``, by the first bytes.
    """

    name: str
    objects: int
    bytes: int


def weigh(store: Store, objects: Sequence[Condemned]) -> list[Kind]:
    """Objects by kind, with the bytes of each kind together; of the first 10,000.

    Raises:
        UnavailableError: The store does not answer.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        seen = [one for one in pool.map(lambda one: _look(store, one), objects[:_MOST]) if one is not None]
    names = sorted({name for name, _ in seen})
    return [Kind(name=name, objects=len(sizes), bytes=sum(sizes)) for name in names if (sizes := _sizes(seen, name))]


def _sizes(seen: Sequence[tuple[str, int]], name: str) -> list[int]:
    return [size for other, size in seen if other == name]


def _look(store: Store, one: Condemned) -> tuple[str, int] | None:
    looked = store.look(object_key(one.digest), first=_FIRST, version=one.version)
    if looked is None:
        return None
    if looked.start in (b"PAR1", b"PARE"):
        return "parquet", looked.size
    return ("record" if looked.start.startswith(b"{") else "bytes"), looked.size
