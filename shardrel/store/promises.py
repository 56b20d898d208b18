"""The promises of the store port, each with a trial that shows whether a store keeps it.

Source: schemas/SPEC.md#store
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from typing import TypeVar

from shardrel.errors import UnavailableError
from shardrel.store.port import (
    AlreadyPresent,
    Conflict,
    CreateOutcome,
    Lost,
    ObjectKey,
    Store,
    SwapOutcome,
    Token,
    Unknown,
    Written,
)

_BYTES = 4096
_CLEANERS = 8

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a probe tries.

    Attributes:
        racers: Threads on one key at a time.
        rounds: Races of each kind.
        listed: Keys that a listing must show; above 1,000 an S3 listing has a second page.
    """

    racers: int
    rounds: int
    listed: int


class Scratch:
    """Fresh keys of one probe, and what was written under them."""

    def __init__(self, store: Store, probe_id: str) -> None:
        self.store = store
        self.prefix = f"probe/{probe_id}/"
        self.written: dict[ObjectKey, list[str]] = {}

    def key(self, name: str) -> ObjectKey:
        """A fresh key."""
        key = ObjectKey(self.prefix + name)
        self.written[key] = []
        return key

    def create(self, key: ObjectKey, data: bytes) -> CreateOutcome:
        """Create, and remember what was written."""
        return self._kept(key, self.store.create(key, data))

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Swap, and remember what was written."""
        return self._kept(key, self.store.swap(key, data, expected))

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

    def _forget(self, written: tuple[ObjectKey, list[str]]) -> None:
        key, versions = written
        for version in versions:
            with suppress(UnavailableError):
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
        problem = _judge_race(scratch, key, _race(effort, partial(scratch.create, key)))
        if problem:
            return problem
    return None


def _swap_race(scratch: Scratch, effort: Effort) -> str | None:
    key = scratch.key("swap-race")
    current = scratch.swap(key, b"start", None)
    for number in range(effort.rounds):
        if not isinstance(current, Written):
            return f"a swap with the right token was {_name(current)}"
        token = current.token
        problem = _judge_race(scratch, key, _race(effort, partial(scratch.swap, key, expected=token)))
        if problem:
            return problem
        stored = scratch.store.read(key, max_bytes=_BYTES)
        current = scratch.swap(key, b"round %d" % number, None if stored is None else stored.token)
    return None


def _race(effort: Effort, write: Callable[[bytes], Outcome]) -> dict[bytes, Outcome]:
    """Let all racers write at once, each its own bytes."""
    start = Barrier(effort.racers)

    def run(data: bytes) -> Outcome:
        start.wait()
        return write(data)

    bodies = [b"racer %d" % number for number in range(effort.racers)]
    with ThreadPoolExecutor(effort.racers) as pool:
        return dict(zip(bodies, pool.map(run, bodies), strict=True))


def _judge_race(
    scratch: Scratch, key: ObjectKey, outcomes: dict[bytes, CreateOutcome] | dict[bytes, SwapOutcome]
) -> str | None:
    winners = [data for data, outcome in outcomes.items() if isinstance(outcome, Written)]
    unclear = [data for data, outcome in outcomes.items() if isinstance(outcome, Unknown)]
    if len(winners) > 1:
        return f"{len(winners)} of {len(outcomes)} racers won"
    if scratch.bytes_at(key) not in (winners or unclear):
        return "the key does not hold what the winner of the race wrote"
    return None


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
    "list-complete": _list_complete,
    "delete-exact-version": _delete_exact_version,
}
ADVISORY = frozenset({"list-complete", "delete-exact-version"})
