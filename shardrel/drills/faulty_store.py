"""A store whose faults are planned: which operation on which keys goes wrong, how, and how often.

The faults are those that a real store can show while it keeps its promises (a lost answer, an outage,
a listing that lags) and those that break them (a body cut short, changed or of another version).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.port import CreateOutcome, Looked, ObjectKey, Store, Stored, SwapOutcome, Token, Unknown

T = TypeVar("T")


class Fault(Enum):
    """What goes wrong."""

    FAIL_BEFORE = "nothing happens; unavailable"
    FAIL_AFTER = "it happens; unavailable all the same"
    UNKNOWN_BEFORE = "a write does not land; its outcome is unknown"
    UNKNOWN_AFTER = "a write lands; its outcome is unknown"
    HOOK = "the rule's hook runs first, then it happens"
    ABSENT = "a read finds nothing"
    TRUNCATED = "a read gives the first half of the bytes"
    FLIPPED = "a read gives bytes with one bit changed"
    WRONG_VERSION = "a read at an exact version gives the current bytes"
    STALE_READ = "a read shows what the one before it showed"
    STALE_LIST = "a listing shows what the one before it showed"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One fault of the plan.

    Attributes:
        operation: The name of the port's method.
        prefix: Keys that it applies to.
        skip: How many matching requests pass first.
        times: How many requests it hits; None for all.
        chance: Probability of a hit, drawn from the plan's seed.
        hook: For HOOK: called with the key.
    """

    operation: str
    fault: Fault
    prefix: str = ""
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    hook: Callable[[str], None] | None = None


@dataclass
class FaultyStore(ForwardingStore):
    """``inner`` behind a plan. The first rule that matches a request decides.

    Attributes:
        fired: (operation, key, fault) of each request that was hit, in order.
    """

    inner: Store
    plan: Sequence[Rule]
    seed: int = 0
    fired: list[tuple[str, str, Fault]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = self.seed
        self._lock = threading.Lock()
        self._met = [0] * len(self.plan)
        self._hits = [0] * len(self.plan)
        self._listed: dict[str, list[ObjectKey]] = {}
        self._shown: dict[ObjectKey, Stored | None] = {}

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        return self._write("create", key, lambda: self.inner.create(key, data))

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        return self._write("swap", key, lambda: self.inner.swap(key, data, expected))

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        fault = self._begin("read", key)
        if fault is Fault.ABSENT:
            return None
        if fault is Fault.STALE_READ and key in self._shown:
            return self._shown[key]
        asked = None if fault is Fault.WRONG_VERSION else version
        stored = self.inner.read(key, max_bytes=max_bytes, version=asked)
        self._shown[key] = stored
        self._end(fault)
        if stored is None or fault not in (Fault.TRUNCATED, Fault.FLIPPED):
            return stored
        return Stored(
            _cut(stored.data) if fault is Fault.TRUNCATED else _flip(stored.data), stored.version, stored.token
        )

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        fault = self._begin("look", key)
        looked = None if fault is Fault.ABSENT else self.inner.look(key, first=first, version=version)
        self._end(fault)
        return looked

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        fault = self._begin("list", prefix)
        now = list(self.inner.list(prefix))
        shown = self._listed.get(prefix, []) if fault is Fault.STALE_LIST else now
        self._listed[prefix] = now
        self._end(fault)
        return iter(shown)

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        fault = self._begin(operation, key)
        done = request()
        self._end(fault)
        return done

    def _write(self, operation: str, key: ObjectKey, write: Callable[[], T]) -> T | Unknown:
        fault = self._begin(operation, key)
        if fault is Fault.UNKNOWN_BEFORE:
            return Unknown("planned: it did not land")
        outcome = write()
        self._end(fault)
        return Unknown("planned: it landed") if fault is Fault.UNKNOWN_AFTER else outcome

    def _begin(self, operation: str, key: str) -> Fault | None:
        rule = self._draw(operation, key)
        if rule is None:
            return None
        if rule.hook is not None:
            rule.hook(key)
        if rule.fault is Fault.FAIL_BEFORE:
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "planned: nothing happened")
        return rule.fault

    def _end(self, fault: Fault | None) -> None:
        if fault is Fault.FAIL_AFTER:
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "planned: it happened")

    def _draw(self, operation: str, key: str) -> Rule | None:
        with self._lock:
            for at, rule in enumerate(self.plan):
                if rule.operation != operation or not key.startswith(rule.prefix):
                    continue
                self._met[at] += 1
                spent = rule.times is not None and self._hits[at] >= rule.times
                if self._met[at] <= rule.skip or spent or self._drawn() >= rule.chance:
                    continue
                self._hits[at] += 1
                self.fired.append((operation, key, rule.fault))
                return rule
        return None

    def _drawn(self) -> float:
        """The next of a fixed sequence of numbers in [0, 1): Knuth's MMIX generator, begun at the seed."""
        self._chance = (self._chance * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._chance >> 11) / 2**53


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
