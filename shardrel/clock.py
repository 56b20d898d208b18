"""Wall clock, waiting, randomness and ids: the only module that may ask the machine for them.

Rules take such values as arguments; a lint bans the underlying calls everywhere else.
"""

import datetime
import os
import time
import uuid


def now_utc() -> str:
    """The time as RFC 3339 in UTC with whole seconds, e.g. ``2026-01-31T12:00:00Z``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_ns() -> int:
    """The time in nanoseconds since 1970; orders what was used when, and no verdict rests on it."""
    return time.time_ns()


def monotonic() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def fresh_id() -> str:
    """32 lower-case hex digits that nobody else has."""
    return uuid.uuid4().hex


def jitter() -> float:
    """A number in [0, 1) for back-off; never used for anything that must be reproducible."""
    return int.from_bytes(os.urandom(6), "little") / 2**48
