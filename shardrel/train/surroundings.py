"""What a scheduler tells a rank without a change of the script. Source: schemas/SPEC.md#watching."""

import functools
import os
import sys

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.train.watch import Watch

WATCH = "SHARDREL_WATCH"
"""``ADDRESS:PORT`` to answer /readyz and /metrics at; the second rank of a host takes the next port, and so on."""

EVENTS = "SHARDREL_EVENTS"
"""``stderr``: write events there as JSON lines."""

ROOT = "SHARDREL_ROOT"
"""The root that the run has to have."""


def told_root() -> str | None:
    """The root that this rank was told by its surroundings."""
    return os.environ.get(ROOT) or None


@functools.cache
def environment_watch() -> Watch:
    """The watch that the environment asks for, one a process and for all of its life.

    Raises:
        InvalidInputError: ``input.invalid`` for an address that is none or can't be had.
    """
    watch = Watch(sys.stderr if os.environ.get(EVENTS) == "stderr" else None)
    address = os.environ.get(WATCH)
    if address:
        host, port = _parse(address)
        watch.serve_on(host, port + int(os.environ.get("LOCAL_RANK", "0")))
    return watch


def _parse(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{WATCH} is ADDRESS:PORT")
    return host.strip("[]"), int(port)
