"""Recover from a state that a loss of power left, with the product's own functions, and say what does not hold.

Source: schemas/SPEC.md#power-loss
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shardrel.checkpoint.commits import read_run
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.recovery import recover
from shardrel.digest import digest_of
from shardrel.errors import ShardrelError
from shardrel.gate.view import read_gate
from shardrel.lab.power import home as homes
from shardrel.lab.power.home import DATASET, Home, done, summary
from shardrel.lab.power.marks import Told
from shardrel.lab.power.story import Act
from shardrel.store.layout import gate_key, object_digest
from shardrel.store.objects import get_by_digest
from shardrel.store.port import ObjectKey

_BOUND = 1 << 28

LOST = "acknowledged-lost"
TORN = "torn-object"
WENT_BACK = "gate-went-back"
FOREIGN = "gate-foreign"
CHECKPOINT = "checkpoint"
UNFINISHED = "operation-came-back"
RECOVERY = "recovery"
OTHER_END = "other-end"


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold in a state.

    Attributes:
        invariant: Its name.
        about: A key, or a code.
    """

    invariant: str
    about: str


def judge(folder: Path, act: Act, goal: str, told: Told) -> list[Violation]:
    """Look, recover, go on, look again.

    Args:
        folder: A home, rebuilt.
        act: The transaction, to be run again.
        goal: What ``home.summary`` says when it is done.
        told: What was acknowledged when power was lost.

    Effects: recovers; the home is that of a finished transaction then.
    """
    home = homes.at(folder)
    found: list[Violation] = []
    for step in (_objects, _acknowledged, _gate, _checkpoints):
        found += _guarded(lambda step=step: step(home, told))  # type: ignore[misc]
    return found + _guarded(lambda: _went_on(home, act, goal, told))


def _guarded(step: Callable[[], Iterator[Violation]]) -> list[Violation]:
    try:
        return list(step())
    except ShardrelError as err:
        return [Violation(RECOVERY, err.code)]


def _objects(home: Home, told: Told) -> Iterator[Violation]:
    """Whatever is under a digest's name has this digest, also where nobody was told of it."""
    for key in home.store.list("objects/"):
        digest = object_digest(key)
        try:
            get_by_digest(home.store, digest or "", max_bytes=_BOUND)
        except ShardrelError as err:
            yield Violation(TORN, err.code)


def _acknowledged(home: Home, told: Told) -> Iterator[Violation]:
    for key, digest in told.created.items():
        stored = home.store.read(ObjectKey(key), max_bytes=_BOUND)
        if stored is None or digest_of(stored.data) != digest:
            yield Violation(LOST, key.split("/")[0])


def _gate(home: Home, told: Told) -> Iterator[Violation]:
    """One of its states, not older than the acknowledged one; or none yet, exactly."""
    stored = home.store.read(gate_key(DATASET), max_bytes=_BOUND)
    if stored is None:
        if told.oldest is not None:
            yield Violation(LOST, "gates")
        return
    digest = digest_of(stored.data)
    if digest not in told.states:
        yield Violation(FOREIGN, "gates")
    elif told.oldest is not None and digest not in told.states[told.oldest :]:
        yield Violation(WENT_BACK, "gates")
    read_gate(home.store, DATASET)
    summary(home)  # checks the whole history


def _checkpoints(home: Home, told: Told) -> Iterator[Violation]:
    """The newest commit record that has its name is restored, and none is passed over; no other is."""
    if home.store.read(gate_key(DATASET), max_bytes=_BOUND) is None:
        return
    for run in read_gate(home.store, DATASET).body.runs:
        installed = 0
        while read_commit(home.store, run, installed) is not None:
            installed += 1
        selected = recover(home.store, DATASET, Expected(run_id=run), home.key())
        generation = -1 if selected is None else selected.installed.record.generation
        head = read_run(home.store, DATASET, run).head
        if selected is not None and selected.passed_over:
            yield Violation(CHECKPOINT, selected.passed_over[0].code)
        if generation != installed - 1 or generation != (-1 if head is None else head.generation):
            yield Violation(CHECKPOINT, "another generation")


def _went_on(home: Home, act: Act, goal: str, told: Told) -> Iterator[Violation]:
    """Who was told that it is done does nothing; anybody else runs it again, unless he finds it done."""
    if told.done:
        if summary(home) != goal:
            yield Violation(LOST, "transaction")
        if told.ended and home.unfinished():
            yield Violation(UNFINISHED, "transaction")
    elif not done(home, goal):
        act(home)
        if summary(home) != goal:
            yield Violation(OTHER_END, "transaction")
        yield from _objects(home, told)
