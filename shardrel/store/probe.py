"""Does a store keep the promises that the gate rests on? Source: schemas/SPEC.md#store

Every check works on fresh keys ``probe/<id>/<name>`` and takes away what it wrote. Some servers ignore
conditions without a word; only asking them shows it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, RefusedError, UnavailableError
from shardrel.store.port import ProbedServer, Store, Written
from shardrel.store.promises import ADVISORY, PROMISES, Effort, Scratch, Trial
from shardrel.store.racers import Racers, racers

SHORT = Effort(racers=2, processes=1, rounds=2, listed=20)
FULL = Effort(racers=4, processes=1, rounds=5, listed=1001)
THOROUGH = Effort(racers=8, processes=3, rounds=20, listed=2001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise, tried.

    Attributes:
        required: Whether a store that breaks it is refused; the others are reported.
    """

    name: str
    ok: bool
    required: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeVerdict:
    """What a probe found.

    Attributes:
        quoted_tokens: Whether the checks were made with ETags in quotes; some servers know them without alone.
    """

    checks: tuple[Check, ...]
    quoted_tokens: bool

    @property
    def conformant(self) -> bool:
        """Whether every required check held."""
        return all(check.ok or not check.required for check in self.checks)

    @property
    def verdict(self) -> str:
        """``PASSED`` or ``FAILED``."""
        return "PASSED" if self.conformant else "FAILED"

    def require(self) -> None:
        """Refuse a store that breaks a required promise.

        Raises:
            RefusedError: ``storage.not-conformant``, with the names of the checks that failed.
        """
        failed = [check.name for check in self.checks if check.required and not check.ok]
        if failed:
            raise RefusedError(
                ErrorCode.STORAGE_NOT_CONFORMANT,
                "the store does not keep what shardrel needs: " + ", ".join(failed),
                checks=failed,
            )


def probe(store: Store, effort: Effort = SHORT) -> ProbeVerdict:
    """Try every promise of the store port, in the dialect that the server knows.

    Raises:
        UnavailableError: The store does not answer, so nothing is known about it.

    Effects: some objects below ``probe/``, deleted again; a crash leaves them, and nothing reads them.
    """
    quoted = not _knows_bare_tokens_alone(store)
    if isinstance(store, ProbedServer):
        store = store.speaking(quoted_tokens=quoted)
    with racers(store, effort.racers, effort.processes) as field, _scratch(store, field) as scratch:
        checks = [_run(name, rule, scratch, effort, required=name not in ADVISORY) for name, rule in PROMISES.items()]
    return ProbeVerdict(checks=tuple(checks), quoted_tokens=quoted)


@contextmanager
def _scratch(store: Store, field: Racers) -> Iterator[Scratch]:
    scratch = Scratch(store, clock.fresh_id(), field)
    try:
        yield scratch
    finally:
        scratch.clear()


def _knows_bare_tokens_alone(store: Store) -> bool:
    """Whether a server takes an ETag as a condition only without the quotes that belong to it."""
    if not isinstance(store, ProbedServer):
        return False
    return not _swaps(store.speaking(quoted_tokens=True)) and _swaps(store.speaking(quoted_tokens=False))


def _swaps(store: Store) -> bool:
    with racers(store, 1, 0) as field, _scratch(store, field) as scratch:
        key = scratch.key("dialect")
        try:
            first = scratch.swap(key, b"first", None)
            return isinstance(first, Written) and isinstance(scratch.swap(key, b"second", first.token), Written)
        except RefusedError:
            return False


def _run(name: str, rule: Trial, scratch: Scratch, effort: Effort, *, required: bool) -> Check:
    try:
        problem = rule(scratch, effort)
    except (IntegrityError, RefusedError) as err:
        problem = err.message
    except UnavailableError as err:
        if required:
            raise
        problem = err.message
    return Check(name=name, ok=problem is None, required=required, detail=problem or "as promised")
