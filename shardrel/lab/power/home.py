"""Where the transactions of a drill of power loss take place: a store, keys, and ids of unfinished operations."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shardrel.canonical import json as canonical
from shardrel.digest import digest_of
from shardrel.gate.call import Call
from shardrel.gate.log import read_entries
from shardrel.gate.view import find_gate
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.store.port import AlreadyPresent, CreateOutcome, ObjectKey, Store, SwapOutcome, Token, Written
from shardrel.trust import keyring
from shardrel.trust.keys import SigningKey

DATASET, ALIAS = "power-loss", "prod"
NOW = "2026-01-31T12:00:00Z"
"""Of all transactions, so that one that is run again says the same."""

T = TypeVar("T")
Say = Callable[[dict[str, str]], None]


class PlacedStore(ForwardingStore):
    """A local store that names itself alike wherever it is rebuilt: unfinished operations are kept by its name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalStore(folder / "store"))

    @property
    def url(self) -> str:
        """No place."""
        return "file:///power-loss"


class TellingStore(PlacedStore):
    """Tells what it has acknowledged, and every state that a gate may have been given."""

    def __init__(self, folder: Path, say: Say) -> None:
        super().__init__(folder)
        self._say = say

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Told once it is acknowledged."""
        outcome = super().create(key, data)
        if isinstance(outcome, Written | AlreadyPresent):
            self._say({"created": key, "digest": digest_of(data)})
        return outcome

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """Told before, and once it is acknowledged."""
        self._say({"trying": key, "digest": digest_of(data)})
        outcome = super().swap(key, data, expected)
        if isinstance(outcome, Written):
            self._say({"swapped": key, "digest": digest_of(data)})
        return outcome


@dataclass(frozen=True, slots=True)
class Home:
    """A folder with ``store`` and ``keys`` in it, and the store as somebody sees it."""

    folder: Path
    store: Store

    @property
    def keys(self) -> Path:
        """The folder of keys."""
        return self.folder / "keys"

    @property
    def pending(self) -> Path:
        """Ids of operations whose outcome is not known yet."""
        return self.keys / "operations"

    def key(self, name: str = keyring.ADMIN) -> SigningKey:
        """A key that was made."""
        return keyring.load(self.keys, name)

    def call(self, name: str = keyring.ADMIN) -> Call:
        """A call as the command line makes it."""
        return Call(signers=[self.key(name)], recorded_at=NOW, operation_id=None, pending=self.pending)

    def unfinished(self) -> bool:
        """Whether the id of an operation is kept."""
        return self.pending.is_dir() and any(self.pending.iterdir())


def done(home: Home, goal: str) -> bool:
    """Whether somebody who looks finds a transaction done, and nothing that asks him to run it again."""
    return summary(home) == goal and not home.unfinished()


def at(folder: Path) -> Home:
    """The home in a folder."""
    return Home(folder, PlacedStore(folder))


def summary(home: Home) -> str | None:
    """What the gate and its history have come to, without what chance decides; None where there is no gate.

    Raises:
        ShardrelError: The gate cannot be read, or its history does not hold.
    """
    view = find_gate(home.store, DATASET)
    if view is None:
        return None
    text = canonical.encode(view.body).decode()
    for permit, held in view.body.permits.items():
        text = text.replace(permit, f"{held.kind} permit of {held.subject}")
    for run in view.body.runs:
        text = text.replace(run, "the run")
    body: dict[str, Any] = json.loads(text)
    body["gateId"] = body["policy"] = None
    for one in body["runs"].values():
        if one["head"] is not None:
            one["head"]["commit"] = None
    kinds = [entry.kind for entry in read_entries(home.store, DATASET)]
    commits = sorted(key.rpartition("/")[2] for key in home.store.list("runs/"))
    return json.dumps([body, kinds, commits], sort_keys=True)
