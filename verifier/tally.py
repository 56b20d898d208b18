"""Findings as they come in, merged by what they are about. Source: schemas/SPEC.md#verification"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.records.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One observation: ``count`` members or objects of one subject are wrong in one way.

    Attributes:
        sample_id: The first sample id concerned; only its digest leaves the verifier.
    """

    code: ErrorCode
    subject: str
    count: int = 1
    row: int | None = None
    sample_id: str | None = None
    detail: str | None = None


class Tally:
    """Adds observations up; safe among threads, and the result does not depend on their order.

    Attributes:
        nameless: Of an encrypted release not even digests of sample ids are told: an id can be guessed.
        entries: Sequences of the tombstones and of the benchmarks that hits are of; None where nobody looked. No
            report has them: they are for whoever asked.
    """

    def __init__(self) -> None:
        self.nameless = False
        self.entries: tuple[set[int], set[int]] | None = None
        self._lock = threading.Lock()
        self._spots: dict[tuple[str, str, str], Spot] = {}

    def add(self, spots: Iterable[Spot]) -> None:
        """Take observations in."""
        with self._lock:
            for spot in spots:
                key = (spot.code, spot.subject, spot.detail or "")
                known = self._spots.get(key)
                self._spots[key] = spot if known is None else _merge(known, spot)

    def name(self, code: ErrorCode, sequences: set[int]) -> None:
        """Take in which entries the hits of a log are of."""
        with self._lock:
            if self.entries is not None:
                self.entries[code is ErrorCode.BENCHMARK_HIT].update(sequences)

    def findings(self) -> list[Finding]:
        """All of them, sorted by subject, code and detail."""
        with self._lock:
            spots = sorted(self._spots.values(), key=lambda spot: (spot.subject, spot.code, spot.detail or ""))
        return [_finding(spot, nameless=self.nameless) for spot in spots]


def _merge(one: Spot, other: Spot) -> Spot:
    first = min(one, other, key=_position)
    return Spot(
        code=one.code,
        subject=one.subject,
        count=one.count + other.count,
        row=first.row,
        sample_id=first.sample_id,
        detail=one.detail,
    )


def _position(spot: Spot) -> tuple[bool, int, bool, str]:
    return spot.row is None, spot.row or 0, spot.sample_id is None, spot.sample_id or ""


def _finding(spot: Spot, *, nameless: bool) -> Finding:
    sample = None if nameless or spot.sample_id is None else digest_of(spot.sample_id.encode())
    return Finding(
        code=spot.code, subject=spot.subject, count=spot.count, row=spot.row, sample_digest=sample, detail=spot.detail
    )
