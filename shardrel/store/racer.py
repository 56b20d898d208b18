"""One process of a race: started by ``racers``, told what to write by lines, answers by lines.

A line in is ``{"operation", "key", "expected", "bodies"}``; every body is written by a thread of its own, all at
once. The line out is the list of ``{"outcome", "version"}`` in the order of the bodies.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import msgspec

from shardrel.errors import ShardrelError
from shardrel.store.open import open_store
from shardrel.store.port import Address, ObjectKey, Store, Token, Written


def main() -> None:
    """Open the store of the first line, then race on every further one until the input ends."""
    address = msgspec.json.decode(sys.stdin.readline(), type=Address)
    store = open_store(address.url, endpoint_url=address.endpoint_url, quoted_tokens=address.quoted_tokens)
    _say("ready")
    for line in sys.stdin:
        plan = msgspec.json.decode(line)
        _say(_race(store, plan))


def _say(answer: object) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def _race(store: Store, plan: dict[str, Any]) -> list[dict[str, str | None]]:
    start = Barrier(len(plan["bodies"]))

    def run(body: str) -> dict[str, str | None]:
        start.wait()
        return _write(store, plan["operation"], ObjectKey(plan["key"]), body.encode(), plan["expected"])

    with ThreadPoolExecutor(len(plan["bodies"])) as pool:
        return list(pool.map(run, plan["bodies"]))


def _write(store: Store, operation: str, key: ObjectKey, data: bytes, expected: str | None) -> dict[str, str | None]:
    try:
        token = None if expected is None else Token(expected)
        outcome = store.create(key, data) if operation == "create" else store.swap(key, data, token)
    except ShardrelError as err:
        return {"outcome": err.code.value, "version": None}
    version = outcome.version if isinstance(outcome, Written) else None
    return {"outcome": type(outcome).__name__, "version": version}
