"""Publishers, jobs and collections at the same time: whatever the gate holds on to is whole.

In threads over the real verbs; and every interleaving of them in small worlds (``tests.support.gc_world``).
"""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from shardrel.errors import ErrorCode, ShardrelError
from shardrel.gate.history import read_history
from shardrel.records.transition import Retire
from tests.support import gc_world
from tests.support.explorer import Exploration, Explored
from tests.support.retained import Retained, retained

ROUNDS = 6
# What a loser is told; it goes on with its next round.
EXPECTED = {
    ErrorCode.RETENTION_SWEEP,
    ErrorCode.GATE_UNKNOWN_ROOT,
    ErrorCode.GATE_GENERATION,
    ErrorCode.STORAGE_ABSENT,
    ErrorCode.STORE_CONTENTION,
}


def run_all(*loops: Callable[[], None]) -> list[ShardrelError]:
    """Run loops in threads of their own; what they raised beside what losers are told."""
    failures: list[ShardrelError] = []

    def guarded(loop: Callable[[], None]) -> None:
        for _ in range(ROUNDS):
            try:
                loop()
            except ShardrelError as err:
                if err.code not in EXPECTED:
                    failures.append(err)
            except AssertionError:
                # A verdict that is not PASSED is of a root that a collection let go of in between; it may not be of
                # a held one.
                continue

    threads = [threading.Thread(target=guarded, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def publisher(scene: Retained, alias: str, first: int) -> Callable[[], None]:
    """Releases over and over the same few contents, so that what is published was collected a moment ago."""
    turn = [first]

    def publish() -> None:
        turn[0] += 1
        scene.release(turn[0] % 3, alias)

    return publish


@pytest.mark.parametrize("collectors", [1, 2])
def test_nothing_that_is_held_is_lost(collectors: int) -> None:
    scene = retained(releases=1)
    loops = [publisher(scene, "prod", 0), publisher(scene, "dev", 1)]
    failures = run_all(*loops, *[lambda: scene.gc() for _ in range(collectors)])
    assert not failures
    body = scene.view.body
    for root, candidate in body.candidates.items():
        assert candidate.state == "INVALID" or scene.whole(root)
    for alias in body.aliases.values():
        assert scene.verify(alias.root) == "PASSED"
    scene.gc()
    assert scene.gc().objects == ()
    made = [link.transition.request for link in read_history(scene.store, scene.view)]
    assert any(isinstance(request, Retire) and request.objects for request in made)


ONE_PUBLISHER = gc_world.Bounds(leftovers=frozenset("a"))
TWO_PUBLISHERS = gc_world.Bounds(closures=(frozenset("a"), frozenset("a")), publications=1)
LEFTOVER = gc_world.Bounds(closures=(frozenset("b"), frozenset("a")), publications=1, leftovers=frozenset("a"))
JOB = gc_world.Bounds(
    closures=(), attempts=1, tensors=("x", "y"), checkpoints=2, collections=3, leftovers=frozenset("x")
)
SMALL = {"one-publisher": ONE_PUBLISHER, "two-publishers": TWO_PUBLISHERS, "leftover": LEFTOVER, "job": JOB}
LARGE = {
    "three-collections": replace(TWO_PUBLISHERS, collections=3, publications=2),
    "two-contents": gc_world.Bounds(closures=(frozenset("ab"), frozenset("b")), leftovers=frozenset("a")),
    "job-and-stranger": replace(JOB, attempts=2, checkpoints=1),
    "job-and-publisher": replace(JOB, closures=(frozenset("x"),), tensors=("x",), checkpoints=1, publications=1),
}
KINDS = {
    "begin", "write", "end", "refused", "plan", "note", "retire-busy", "retire-quiet", "stale", "delete", "end-sweep",
    "attempt", "install", "admit", "given-up",
}  # fmt: skip


def explore(bounds: gc_world.Bounds) -> Explored:
    return Exploration[gc_world.GcWorld](
        start=gc_world.beginning(bounds),
        key=gc_world.key_of,
        successors=lambda world: gc_world.steps(world, bounds),
        check=lambda world: gc_world.check(bounds, world),
        check_step=gc_world.check_step,
    ).run()


def shown(name: str, found: Explored, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n  every interleaving with gc, {name}: {found}")
    assert found.violation is None, found.path


def test_nothing_that_is_held_is_condemned_in_any_small_world(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = set[str]()
    for name, bounds in SMALL.items():
        found = explore(bounds)
        shown(name, found, capsys)
        kinds |= found.steps.keys()
    assert kinds >= KINDS


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_nothing_that_is_held_is_condemned_in_a_larger_world(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown(name, explore(LARGE[name]), capsys)


LOST, CHECKPOINT = "a root that the gate holds on to has lost an object", "an admitted checkpoint has lost an object"
CONDEMNED = "an object of a root that the gate holds on to is condemned"


@pytest.mark.parametrize(
    ("bounds", "caught"),
    [
        (replace(LEFTOVER, looks=False), {LOST, CONDEMNED}),
        (replace(ONE_PUBLISHER, looks=False, waits=False), {LOST, CONDEMNED}),
        (replace(JOB, looks=False), {CHECKPOINT}),
        (replace(JOB, counts_open_sweep=False), {CHECKPOINT}),
        (replace(TWO_PUBLISHERS, exact=False), {LOST, CONDEMNED}),
    ],
    ids=["no look", "no look and no wait", "a job without a look", "an open sweep is forgotten", "a plan of any state"],
)
def test_a_wrong_way_to_collect_is_caught(bounds: gc_world.Bounds, caught: set[str]) -> None:
    found = explore(bounds)
    assert found.violation in caught, found


def test_a_collection_that_waits_for_nobody_is_sound_and_makes_writers_begin_again() -> None:
    """The wait is for those who are still at it; the look is what nothing is lost by."""
    bounds = gc_world.Bounds(publications=1, collections=2)
    patient, hasty = explore(bounds), explore(replace(bounds, waits=False))
    assert (patient.violation, hasty.violation) == (None, None)
    assert patient.steps.get("refused", 0) < hasty.steps["refused"]
