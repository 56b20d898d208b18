"""The promises of the store port, each with a trial that shows whether a store keeps it.

Source: schemas/SPEC.md#store
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from shardrel.errors import ErrorCode, ShardrelError, UnavailableError
from shardrel.store.port import (
    AlreadyPresent,
    Conflict,
    CreateOutcome,
    Foldered,
    Lost,
    ObjectKey,
    ProbedServer,
    Store,
    SwapOutcome,
    Token,
    Written,
)
from shardrel.store.racers import Raced, Racers

_BYTES = 4096
_CLEANERS = 8

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a probe tries.

    Attributes:
        racers: Threads of one process on one key at a time.
        processes: Further processes with as many threads each, where the store is not in this one's memory.
        rounds: Races of each kind.
        listed: Keys that a listing must show; above 1,000 an S3 listing has a second page.
    """

    racers: int
    processes: int
    rounds: int
    listed: int


class Scratch:
    """Fresh keys of one probe, and what was written under them."""

    def __init__(self, store: Store, probe_id: str, racers: Racers) -> None:
        self.store = store
        self._racers = racers
        self.prefix = f"probe/{probe_id}/"
        self.written: dict[ObjectKey, list[str]] = {}

    def key(self, name: str) -> ObjectKey:
        """A fresh key."""
        key = ObjectKey(self.prefix + name)
        self.written[key] = []
        return key

    def beside(self, name: str) -> ObjectKey:
        """A fresh key beside the prefix and not below it."""
        key = ObjectKey(self.prefix.rstrip("/") + name)
        self.written[key] = []
        return key

    def create(self, key: ObjectKey, data: bytes) -> CreateOutcome:
        """Create, and remember what was written."""
        return self._kept(key, self.store.create(key, data))

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Swap, and remember what was written."""
        return self._kept(key, self.store.swap(key, data, expected))

    def race(self, key: ObjectKey, operation: Literal["create", "swap"], expected: Token | None) -> list[Raced]:
        """Let all racers write a key at once, and remember who won."""
        raced = self._racers.race(self.store, key, operation, expected)
        self.remember(key, [racer.version for racer in raced if racer.version is not None])
        return raced

    def remember(self, key: ObjectKey, versions: list[str]) -> None:
        """Somebody else wrote these versions."""
        self.written[key] += versions

    def _kept(self, key: ObjectKey, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Written):
            self.written[key].append(outcome.version)
        return outcome

    def bytes_at(self, key: ObjectKey, version: str | None = None) -> bytes | None:
        """The bytes of a key, or None."""
        stored = self.store.read(key, max_bytes=_BYTES, version=version)
        return None if stored is None else stored.data

    def clear(self) -> None:
        """Take away what was written; a store that cannot delete keeps a few small objects."""
        with ThreadPoolExecutor(_CLEANERS) as pool:
            list(pool.map(self._forget, self.written.items()))
        if isinstance(self.store, Foldered):
            with suppress(ShardrelError):
                self.store.drop_folder(self.prefix)

    def _forget(self, written: tuple[ObjectKey, list[str]]) -> None:
        key, versions = written
        for version in versions:
            with suppress(ShardrelError):
                self.store.delete(key, version)


Trial = Callable[[Scratch, Effort], str | None]
"""Tries one promise: None when it held, else what was seen."""


def _create_second_refused(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("create-second-refused")
    outcomes = [scratch.create(key, data) for data in (b"first", b"second", b"first")]
    if not isinstance(outcomes[0], Written):
        return f"a create of an absent key was {_name(outcomes[0])}"
    if not isinstance(outcomes[1], Conflict):
        return f"a create of other bytes under a key that exists was {_name(outcomes[1])}"
    if not isinstance(outcomes[2], AlreadyPresent):
        return f"a create of the same bytes under a key that exists was {_name(outcomes[2])}"
    return None if scratch.bytes_at(key) == b"first" else "a create-only key changed its bytes"


def _create_race(scratch: Scratch, effort: Effort) -> str | None:
    for number in range(effort.rounds):
        key = scratch.key(f"create-race-{number}")
        if problem := _judge_race(scratch, key, scratch.race(key, "create", None)):
            return problem
    return None


def _swap_race(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("swap-race")
    token = None
    for number in range(effort.rounds):
        if problem := _judge_race(scratch, key, scratch.race(key, "swap", token)):
            return problem
        stored = scratch.store.read(key, max_bytes=_BYTES)
        # Racers write the same bytes in every round, and a token may come back with its bytes: part the rounds.
        between = scratch.swap(key, b"between %d" % number, None if stored is None else stored.token)
        if not isinstance(between, Written):
            return f"a swap with the right token was {_name(between)}"
        token = between.token
    return None


def _judge_race(scratch: Scratch, key: ObjectKey, raced: list[Raced]) -> str | None:
    winners = [racer for racer in raced if racer.outcome == "won"]
    if len(winners) > 1:
        return f"{len(winners)} of {len(raced)} racers won"
    left = [racer.data for racer in winners or raced if racer.outcome != "lost"]
    if not left:
        return "nobody won a race"
    return None if scratch.bytes_at(key) in left else "the key does not hold what the winner of the race wrote"


def _read_after_write(scratch: Scratch, effort: Effort) -> str | None:
    for number in range(2 * effort.rounds):
        key = scratch.key(f"read-after-write-{number}")
        if scratch.bytes_at(key) is not None:
            return "a key that was never written has bytes"
        scratch.create(key, b"here")
        if scratch.bytes_at(key) != b"here":
            return "a read right after a write did not see it"
    return None


def _swap_stale_lost(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("swap-stale-lost")
    first = scratch.swap(key, b"first", None)
    if not isinstance(first, Written):
        return f"a swap of an absent key was {_name(first)}"
    second = scratch.swap(key, b"second", first.token)
    if not isinstance(second, Written):
        return f"a swap with the right token was {_name(second)}"
    for token in (first.token, None):
        stale = scratch.swap(key, b"third", token)
        if not isinstance(stale, Lost):
            return f"a swap with {'no' if token is None else 'an old'} token was {_name(stale)}"
    return None if scratch.bytes_at(key) == b"second" else "a lost swap changed the bytes"


def _swap_absent_lost(scratch: Scratch, effort: Effort) -> str | None:
    source = scratch.swap(scratch.key("swap-absent-source"), b"source", None)
    if not isinstance(source, Written):
        return f"a swap of an absent key was {_name(source)}"
    key = scratch.key("swap-absent-lost")
    outcome = scratch.swap(key, b"new", source.token)
    if not isinstance(outcome, Lost):
        return f"a swap of an absent key with a token was {_name(outcome)}"
    return None if scratch.bytes_at(key) is None else "a lost swap made the key"


def _exact_version_read(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("exact-version-read")
    first = scratch.swap(key, b"first", None)
    second = scratch.swap(key, b"second", first.token) if isinstance(first, Written) else first
    if not isinstance(first, Written) or not isinstance(second, Written):
        return f"a swap with the right token was {_name(second)}"
    if scratch.bytes_at(key, second.version) != b"second":
        return "the newest version cannot be read by its version"
    # A store without versions no longer has the first; none may show other bytes in its place.
    return None if scratch.bytes_at(key, first.version) in (b"first", None) else "a read of a version gave another one"


def _delete_marker(scratch: Scratch, effort: Effort) -> str | None:
    """What is deleted without a version reads as absent, cannot be swapped by its old token, and can be created."""
    key = scratch.key("delete-marker")
    first = scratch.create(key, b"first")
    if not isinstance(first, Written):
        return f"a create of an absent key was {_name(first)}"
    try:
        _hide(scratch, key, first.version)
    except UnavailableError as err:
        if err.code is ErrorCode.STORE_DENIED:
            return None  # whoever may not delete leaves no delete markers either
        raise
    if scratch.bytes_at(key) is not None:
        return "a deleted key still has bytes"
    stale = scratch.swap(key, b"stale", first.token)
    if not isinstance(stale, Lost):
        return f"a swap of a deleted key with its old token was {_name(stale)}"
    again = scratch.create(key, b"again")
    if not isinstance(again, Written):
        return f"a create of a deleted key was {_name(again)}"
    return None if scratch.bytes_at(key) == b"again" else "a deleted key that was created again has other bytes"


def _hide(scratch: Scratch, key: ObjectKey, version: str) -> None:
    if isinstance(scratch.store, ProbedServer):
        marker = scratch.store.hide(key)
        scratch.remember(key, [] if marker is None else [marker])
    else:
        scratch.store.delete(key, version)


def _multipart_completion(scratch: Scratch, effort: Effort) -> str | None:
    store = scratch.store
    if not isinstance(store, ProbedServer):
        return None
    key = scratch.key("multipart-completion")
    first = scratch.create(key, b"first")
    second = store.create_in_parts(key, b"second")
    if isinstance(second, Written):
        scratch.remember(key, [second.version])
        return "completing an upload over an object that exists replaces it"
    return None if isinstance(first, Written) and isinstance(second, Conflict) else f"it was {_name(second)}"


def _uploads_closed(scratch: Scratch, effort: Effort) -> str | None:
    store = scratch.store
    count = store.open_uploads() if isinstance(store, ProbedServer) else 0
    return f"{count} uploads are under way or were left behind; a lifecycle rule can abort old ones" if count else None


def _list_order(scratch: Scratch, effort: Effort) -> str | None:
    if not isinstance(scratch.store, ProbedServer):
        return None  # a folder is read in the order that its file system likes
    # "-" comes before "/" in UTF-8, so a server that sorts folder by folder shows the second key first.
    keys = [scratch.beside("-order/key"), scratch.key("order")]
    for key in keys:
        scratch.create(key, b"")
    shown = [key for key in scratch.store.list(scratch.prefix.rstrip("/")) if key in keys]
    return None if shown == keys else "keys are not listed in the order of their bytes"


def _list_complete(scratch: Scratch, effort: Effort) -> str | None:
    keys = {scratch.key(f"listed-{number}") for number in range(effort.listed)}
    with ThreadPoolExecutor(effort.racers) as pool:
        list(pool.map(lambda key: scratch.create(key, b""), keys))
    try:
        missing = keys.difference(scratch.store.list(scratch.prefix + "listed-"))
    except UnavailableError as err:
        return err.message
    return f"{len(missing)} of {len(keys)} keys are not listed" if missing else None


def _delete_exact_version(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("delete-exact-version")
    outcome = scratch.create(key, b"gone soon")
    if not isinstance(outcome, Written):
        return f"a create of an absent key was {_name(outcome)}"
    try:
        scratch.store.delete(key, "etag:other")
        if scratch.bytes_at(key) is None:
            return "a delete of another version took this one"
        return None if scratch.store.delete(key, outcome.version) else "a lock keeps what was written"
    except UnavailableError as err:
        return err.message


def _name(outcome: CreateOutcome | SwapOutcome) -> str:
    return {"Written": "written", "AlreadyPresent": "already present"}.get(
        type(outcome).__name__, type(outcome).__name__.lower()
    )


PROMISES: dict[str, Trial] = {
    "create-second-refused": _create_second_refused,
    "create-race": _create_race,
    "read-after-write": _read_after_write,
    "swap-stale-lost": _swap_stale_lost,
    "swap-absent-lost": _swap_absent_lost,
    "swap-race": _swap_race,
    "exact-version-read": _exact_version_read,
    "delete-marker": _delete_marker,
    "list-complete": _list_complete,
    "list-order": _list_order,
    "delete-exact-version": _delete_exact_version,
    "multipart-completion": _multipart_completion,
    "uploads-closed": _uploads_closed,
}
ADVISORY = frozenset({"list-complete", "list-order", "delete-exact-version", "multipart-completion", "uploads-closed"})
