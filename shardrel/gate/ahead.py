"""Envelopes of a long history, read many at a time before it is walked. Source: schemas/SPEC.md#gate-state

Each transition names the one before it, so a walk alone waits for one answer after the other. The intent of an operation
names the head that it saw: read together, the intents lead to nearly all envelopes at once. They are a hint: what is
missing is read when the walk comes to it, and what does not belong is not used.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from shardrel.canonical import json
from shardrel.errors import FormatError, IntegrityError, NotFoundError
from shardrel.records.transition import Operation
from shardrel.store.layout import operation_prefix
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Foldered, ObjectKey, Store
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES

_WORTH = 100
_WORKERS = 16
_MAX_INTENT = 4096


def read_ahead(store: Store, dataset: str, transitions: int) -> dict[str, bytes]:
    """Envelopes, by their digests, that a walk over so many transitions will probably ask for.

    None for a short history, and none in a folder, where a read waits for nobody: there it would only be more work.

    Raises:
        UnavailableError: The store does not answer.
    """
    if transitions < _WORTH or isinstance(store, Foldered):
        return {}
    # Operations that were refused have intents too, and may be many.
    keys = islice(store.list(operation_prefix(dataset)), 2 * transitions)
    with ThreadPoolExecutor(_WORKERS) as pool:
        heads = _distinct(pool.map(partial(_seen_head, store), keys))
        envelopes = pool.map(partial(_envelope, store), heads)
        return {head: data for head, data in zip(heads, envelopes, strict=True) if data is not None}


def _distinct(heads: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(head for head in heads if head is not None))


def _seen_head(store: Store, key: ObjectKey) -> str | None:
    try:
        stored = store.read(key, max_bytes=_MAX_INTENT)
        return None if stored is None else json.decode(stored.data, Operation).head
    except (IntegrityError, FormatError):
        return None


def _envelope(store: Store, digest: str) -> bytes | None:
    try:
        return get_by_digest(store, digest, max_bytes=MAX_ENVELOPE_BYTES)
    except (NotFoundError, IntegrityError):
        return None
