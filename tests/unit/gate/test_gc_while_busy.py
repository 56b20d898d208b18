"""gc while others write: what was open when an object was first seen without a name holds it, and nothing else does.

Nothing is ever lost to somebody who was told that it is there: whoever ends a publication or admits a checkpoint
looks whether something of it was condemned meanwhile.
"""

from collections.abc import Callable
from typing import TypeVar

import pytest

from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.gc import Collected
from shardrel.gate.publication import Pinned, begin_publication, end_publication
from shardrel.gate.runs import cancel, start
from shardrel.records.descriptor import PARQUET
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.layout import object_key
from shardrel.store.objects import put
from tests.support.retained import Retained, retained
from tests.unit.gate.test_gc import forked
from tests.unit.gate.test_gc_checkpoints import checkpoint_of

T = TypeVar("T")


@pytest.fixture(scope="module")
def made() -> Retained:
    """One release, made once."""
    return retained(releases=1)


@pytest.fixture
def scene(made: Retained) -> Retained:
    """The release, in a store of its own."""
    return forked(made)


def orphan(scene: Retained, what: bytes) -> str:
    return put(scene.store, what, PARQUET)[0].digest


def begin(scene: Retained, name: str, snapshot: str) -> Pinned:
    return begin_publication(scene.store, scene.made.dataset, name, snapshot, scene.call())


def give_up(scene: Retained, name: str) -> None:
    end_publication(scene.store, scene.made.dataset, name, None, scene.call())


def gone(done: Collected) -> set[str]:
    return {one.digest for one in done.objects}


def test_a_store_that_always_publishes_is_collected(scene: Retained) -> None:
    """Publications overlap, so that there is never a moment without one."""
    snapshot = scene.declare(5)
    begin(scene, "first", snapshot)
    left = orphan(scene, b"of a publication that died")
    assert left not in gone(scene.gc())
    assert scene.gc().waiting == ("publication:first",)
    begin(scene, "second", snapshot)
    give_up(scene, "first")
    assert left in gone(scene.gc())
    assert set(scene.view.body.publications) == {"second"}
    assert snapshot in scene.objects()


def test_what_an_open_publication_has_written_stays_however_often_it_is_collected(scene: Retained) -> None:
    begin(scene, "first", scene.declare(5))
    written = orphan(scene, b"a shard that nothing names yet")
    for _ in range(3):
        assert written not in gone(scene.gc())
    assert scene.gc(abandon=frozenset({"first"})).waiting == ()
    assert written not in scene.objects()


def test_a_collection_that_only_looks_moves_no_boundary(scene: Retained) -> None:
    begin(scene, "first", scene.declare(5))
    orphan(scene, b"a shard")
    boundary = scene.view.body.retention.boundary
    assert scene.gc().boundary == boundary
    sequence = scene.view.body.sequence
    scene.gc()
    assert scene.view.body.sequence == sequence


def published(scene: Retained, number: int, last: str, between: Callable[[], None]) -> str:
    """Publish, and let something happen behind its last create, which is of this prefix."""
    store = scene.store

    class Interrupted(ForwardingStore):
        """The store, where the end of the publication comes late."""

        def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
            outcome = request()
            if operation == "create" and key.startswith(last):
                scene.made.store = store
                between()
                scene.made.store = self
            return outcome

    scene.made.store = Interrupted(store)
    try:
        return scene.publish(number)
    finally:
        scene.made.store = store


def test_a_publication_is_refused_what_was_condemned_while_it_was_written_and_succeeds_anew(scene: Retained) -> None:
    """A dead publication left shards. Another finds them there, and they are collected before it ends."""
    root = scene.publish(7)
    begin(scene, "older", scene.declare(5))
    # Given up while something older is open: its objects are seen, and stay for now.
    assert scene.gc(abandon=frozenset({root})).waiting == ("publication:older",)
    assert scene.whole(root)

    def collected() -> None:
        give_up(scene, "older")
        assert root in gone(scene.gc(abandon=frozenset({root})))

    with pytest.raises(RefusedError) as caught:
        published(scene, 7, object_key(root), collected)
    assert caught.value.code == ErrorCode.RETENTION_SWEPT
    assert (set(scene.view.body.publications), root in scene.view.body.candidates) == (set(), False)
    # Run again, it writes everything anew: in a store with versions under new ones, and so under a new root.
    again = scene.publish(7)
    assert scene.whole(again)
    assert scene.verify(again) == "PASSED"


def test_a_publication_of_which_nothing_was_condemned_ends_whatever_else_was_collected(scene: Retained) -> None:
    left = orphan(scene, b"of a publication that died long ago")
    scene_snapshot = scene.declare(5)
    begin(scene, "older", scene_snapshot)
    scene.gc()

    def collected() -> None:
        give_up(scene, "older")
        assert left in gone(scene.gc())

    assert scene.whole(published(scene, 7, "attestations/", collected))


def test_dead_checkpoints_go_while_other_runs_train(scene: Retained) -> None:
    dataset, store = scene.made.dataset, scene.store
    for run in ("dead", "alive"):
        start(store, dataset, "prod", scene.call(), run_id=run)
    tensors = {run: checkpoint_of(scene, run, 0) for run in ("dead", "alive")}
    cancel(store, dataset, "dead", scene.call())
    assert scene.gc().waiting == ("run:alive",)
    assert set(tensors.values()) <= scene.objects()
    # It has moved on: whatever it is writing now, it began behind that.
    kept = checkpoint_of(scene, "alive", 1)
    assert tensors["dead"] in gone(scene.gc())
    assert {tensors["alive"], kept} <= scene.objects()
