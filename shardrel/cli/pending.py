"""Operation ids whose outcome is not known yet, so that a plain re-run takes the same operation up.

An id lies in the folder of keys under a digest of what was asked, where, and of which gate. It goes
when the gate has answered, whatever the answer; it stays on an unknown outcome and on a crash.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from shardrel import clock
from shardrel.canonical import json
from shardrel.cli.settings import Settings
from shardrel.digest import Domain, domain_hash
from shardrel.errors import ConflictError, OutcomeUnknownError, RefusedError
from shardrel.store.layout import check_name


def _path(settings: Settings, what: tuple[str, ...]) -> Path:
    where = [settings.store, settings.endpoint_url, settings.dataset, *what]
    return settings.keys / "operations" / domain_hash(Domain.ID, json.encode(where)).hex()[:32]


@contextlib.contextmanager
def operation(settings: Settings, given: str | None, *what: str) -> Iterator[str]:
    """An operation id for the block: the given one, the pending one, or a fresh one.

    Args:
        given: What ``--operation-id`` says; nothing is kept for it.
        what: Verb and arguments; equal words are the same operation.

    Effects: keeps a fresh id in a file until the block ends with an answer of the gate.
    """
    if given is not None:
        yield check_name(given, "operation id")
        return
    path = _path(settings, what)
    identity = _pending(path) or _keep(path)
    try:
        yield identity
    except (RefusedError, ConflictError):
        path.unlink(missing_ok=True)
        raise
    except OutcomeUnknownError as err:
        err.context = {**err.context, "operation": identity}
        raise
    path.unlink(missing_ok=True)


def _pending(path: Path) -> str | None:
    try:
        return path.read_text() or None
    except FileNotFoundError:
        return None


def _keep(path: Path) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = clock.fresh_id()
    path.write_text(identity)
    return identity
