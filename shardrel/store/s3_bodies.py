"""The body of an S3 answer, read up to a bound and at a least rate. Source: schemas/SPEC.md#store

A time-out of the connection alone bounds the pause between two bytes, and so nothing: a body that trickles would
hold its reader for ever.
"""

from dataclasses import dataclass
from typing import Any

from urllib3.exceptions import HTTPError

from shardrel import clock

BROKE_OFF = "BodyBrokeOff"
TOO_SLOW = "BodyTooSlow"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How slow a body may be.

    Attributes:
        grace: Seconds that every body has.
        least_rate: Bytes a second on average, behind that.
    """

    grace: float
    least_rate: int


class BodyError(Exception):
    """The body did not come to its end; the reason is one of the names above."""


def read_body(body: Any, limit: int, pace: Pace) -> bytes:
    """The whole body, or its first ``limit`` bytes where it has more.

    Args:
        body: As the client gives it.
        limit: Bytes after which nothing more is read.
        pace: Least rate.

    Raises:
        BodyError: It broke off, or is too slow.
    """
    # What the client wraps around it waits for as many bytes as are asked for; this gives what there is.
    stream = body._raw_stream
    pieces: list[bytes] = []
    received, begun = 0, clock.monotonic()
    try:
        while received < limit and (piece := stream.read1(min(limit - received, _PIECE))):
            pieces.append(piece)
            received += len(piece)
            if clock.monotonic() - begun > pace.grace + received / pace.least_rate:
                raise BodyError(TOO_SLOW)
    except HTTPError as err:
        raise BodyError(BROKE_OFF) from err
    return b"".join(pieces)
