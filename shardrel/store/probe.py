"""Does a store keep the promises that the gate rests on? Source: schemas/SPEC.md#store

Every check works on fresh keys ``probe/<id>/<name>`` and takes away what it wrote. Some servers ignore
conditions without a word; only asking them shows it.
"""

from dataclasses import dataclass

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, UnavailableError
from shardrel.store.port import Store
from shardrel.store.promises import ADVISORY, PROMISES, Effort, Scratch, Trial

SHORT = Effort(racers=4, rounds=3, listed=20)
THOROUGH = Effort(racers=8, rounds=5, listed=1001)


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
    """What a probe found."""

    checks: tuple[Check, ...]

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
            UnavailableError: ``storage.not-conformant``, with the names of the checks that failed.
        """
        failed = [check.name for check in self.checks if check.required and not check.ok]
        if failed:
            raise UnavailableError(
                ErrorCode.STORAGE_NOT_CONFORMANT,
                "the store does not keep what shardrel needs: " + ", ".join(failed),
                checks=failed,
            )


def probe(store: Store, effort: Effort = SHORT) -> ProbeVerdict:
    """Try every promise of the store port.

    Raises:
        UnavailableError: The store does not answer, so nothing is known about it.

    Effects: some objects below ``probe/``, deleted again; a crash leaves them, and nothing reads them.
    """
    scratch = Scratch(store, clock.fresh_id())
    try:
        checks = [_run(name, rule, scratch, effort, required=name not in ADVISORY) for name, rule in PROMISES.items()]
    finally:
        scratch.clear()
    return ProbeVerdict(checks=tuple(checks))


def _run(name: str, rule: Trial, scratch: Scratch, effort: Effort, *, required: bool) -> Check:
    try:
        problem = rule(scratch, effort)
    except IntegrityError as err:
        problem = err.message
    except UnavailableError as err:
        if err.code is not ErrorCode.STORAGE_NOT_CONFORMANT:
            raise
        problem = err.message
    return Check(name=name, ok=problem is None, required=required, detail=problem or "as promised")
