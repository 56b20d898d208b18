"""gc on whole releases: what goes, what stays, who is kept out meanwhile, and what happens when it is killed."""

import copy

import pytest
from msgspec.structs import replace

from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.errors import ConflictError, ErrorCode, NotFoundError, RefusedError, ShardrelError, UnavailableError
from shardrel.gate import attestations
from shardrel.gate.admit import admit
from shardrel.gate.closure import root_closure
from shardrel.gate.fence import advance
from shardrel.gate.gc import collect, preview
from shardrel.gate.history import read_history
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.revoke import revoke
from shardrel.gate.rollback import rollback
from shardrel.gate.runs import cancel, finish, start
from shardrel.records.fence import TombstoneEntry
from shardrel.records.report import APPROVAL_PREDICATE, REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put
from shardrel.store.port import ObjectKey
from shardrel.trust.envelope import seal
from shardrel.trust.statement import statement
from tests.support import gates
from tests.support.release_builder import a_world
from tests.support.retained import Killed, MortalStore, Retained, retained
from verifier.recheck import recheck_fences


@pytest.fixture(scope="module")
def three() -> Retained:
    """Three releases, made once."""
    return retained(releases=3)


@pytest.fixture
def scene(three: Retained) -> Retained:
    """The three releases, in a store of its own."""
    return forked(three)


def forked(scene: Retained) -> Retained:
    """The same in another store in memory."""
    store = MemoryStore()
    assert isinstance(scene.store, MemoryStore)
    store._versions = copy.deepcopy(scene.store._versions)
    store._minted = scene.store._minted
    made = copy.copy(scene.made)
    made.store = store
    return Retained(made, list(scene.roots))


def test_old_generations_go_and_the_current_release_still_verifies(scene: Retained) -> None:
    done = scene.gc()
    assert {one.digest for one in done.objects} >= set(scene.roots[:2])
    assert scene.roots[2] in scene.objects()
    assert not scene.objects() & {one.digest for one in done.objects}
    assert scene.verify(scene.roots[2]) == "PASSED"
    assert set(scene.view.body.candidates) == {scene.roots[2]}
    assert done.boundary == scene.view.body.retention.boundary > 0
    assert len(read_history(scene.store, scene.view)) == scene.view.body.sequence


def test_again_there_is_nothing_to_do_and_the_gate_does_not_move(scene: Retained) -> None:
    first = scene.gc()
    sequence = scene.view.body.sequence
    again = scene.gc()
    assert (again.objects, again.boundary) == ((), first.boundary)
    assert scene.view.body.sequence == sequence


def test_a_dry_run_says_what_goes_and_touches_nothing(scene: Retained) -> None:
    before, sequence = scene.objects(), scene.view.body.sequence
    planned = preview(scene.store, scene.made.dataset, generations=0)
    assert (scene.objects(), scene.view.body.sequence) == (before, sequence)
    assert planned.objects == scene.gc().objects != ()


@pytest.mark.parametrize(("window", "left"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_the_window_keeps_so_many_generations_beside_the_current_one(scene: Retained, window: int, left: int) -> None:
    done = scene.gc(generations=window)
    assert [root for root in scene.roots if root in done.kept.roots] == scene.roots[3 - left :]
    for root in scene.roots[3 - left :]:
        assert scene.whole(root)
    if window == 1:
        assert rollback(scene.store, scene.made.dataset, scene.roots[1], "prod", scene.call()).generation == 4
    if window == 0:
        with pytest.raises(NotFoundError) as caught:
            rollback(scene.store, scene.made.dataset, scene.roots[1], "prod", scene.call())
        assert caught.value.code == ErrorCode.GATE_UNKNOWN_ROOT


def test_without_a_number_the_policys_window_holds(scene: Retained) -> None:
    assert scene.view.policy.rollback_window >= 2
    assert scene.gc(generations=None).objects == ()


def test_a_tombstone_hit_takes_a_root_out_of_the_window_at_once(scene: Retained) -> None:
    hit = TombstoneEntry(
        sequence=1, sample_id="sample-000000", source_id=None, source_version=None, content_digest=None, reason=None
    )
    advance(scene.store, scene.made.dataset, "tombstones", [hit], scene.call())
    report = recheck_fences(scene.store, scene.roots[0], scene.view, world=a_world(scene.made)).report
    assert report.counts.tombstone_hits == 1
    kept = scene.gc(generations=5).kept
    assert scene.roots[0] not in kept.roots
    # Nobody has looked at the second yet; a listing that hides a report keeps more, never less.
    assert kept.roots[scene.roots[1]] == ("window:prod@2",)


def test_an_open_run_pins_its_root_until_it_ends(scene: Retained) -> None:
    start(scene.store, scene.made.dataset, "prod", scene.call(), run_id="job")
    scene.release(3)
    held = scene.gc()
    assert held.kept.roots[scene.roots[2]] == ("run:job",)
    assert scene.roots[0] not in scene.objects()
    assert scene.whole(scene.roots[2])
    finish(scene.store, scene.made.dataset, "job", scene.call())
    assert scene.roots[2] in {one.digest for one in scene.gc().objects}


def test_a_staged_candidate_stays_until_it_is_given_up(scene: Retained) -> None:
    staged = scene.publish(7)
    assert scene.gc().kept.roots[staged] == ("candidate:STAGED",)
    assert scene.verify(staged) == "PASSED"
    assert staged in {one.digest for one in scene.gc(abandon=frozenset({staged})).objects}
    assert staged not in scene.view.body.candidates


@pytest.mark.parametrize("used", ["alias", "run"])
def test_what_is_in_use_cannot_be_given_up(scene: Retained, used: str) -> None:
    name = scene.roots[2]
    if used == "run":
        name = start(scene.store, scene.made.dataset, "prod", scene.call(), run_id="job").run_id
    with pytest.raises(RefusedError) as caught:
        scene.gc(abandon=frozenset({name}))
    assert caught.value.code == ErrorCode.RETENTION_PINNED
    with pytest.raises(NotFoundError) as unknown:
        scene.gc(abandon=frozenset({"nobody"}))
    assert unknown.value.code == ErrorCode.GATE_NO_PUBLICATION


def test_an_unfinished_publication_keeps_everything_it_may_have_written(scene: Retained) -> None:
    store, dataset = scene.store, scene.made.dataset
    snapshot = scene.declare(9)
    pin = begin_publication(store, dataset, "p", snapshot, scene.call())
    written, _ = put(store, b"a shard that nothing names yet", "application/vnd.apache.parquet")
    done = scene.gc()
    assert (done.objects, done.waiting) == ((), ("publication:p",))
    assert done.kept.snapshots == {snapshot: ("publication:p",)}
    # Given up: what it wrote goes. It wakes up too late, also where another took its name since.
    gone = scene.gc(abandon=frozenset({"p"}))
    assert written.digest in {one.digest for one in gone.objects}
    root = gates.a_root("late")
    for name_is_taken in (False, True):
        if name_is_taken:
            assert begin_publication(store, dataset, "p", snapshot, scene.call()).sequence > pin.sequence
        with pytest.raises(NotFoundError) as caught:
            end_publication(store, dataset, "p", root, scene.call(), pin=pin.sequence)
        assert caught.value.code == ErrorCode.GATE_NO_PUBLICATION
    assert root not in scene.view.body.candidates


def test_a_declared_snapshot_has_until_the_collection_after_the_next(scene: Retained) -> None:
    snapshot = scene.declare(9)
    assert scene.gc().snapshots == (snapshot,)
    assert snapshot in scene.objects()
    assert snapshot in {one.digest for one in scene.gc().objects}


def test_what_the_gate_itself_may_be_about_to_name_stays(scene: Retained) -> None:
    policy, _ = put(scene.store, b'{"schema":"training.shard.policy.v1"}', "application/json")
    lost, _ = put(scene.store, b'{"payload":"","payloadType":"x","signatures":[]}', "application/json")
    junk, _ = put(scene.store, b'{"not json', "application/octet-stream")
    gone = {one.digest for one in scene.gc().objects}
    assert junk.digest in gone
    assert not gone & {policy.digest, lost.digest}


def test_a_revoked_root_loses_its_bytes_and_not_its_revocation(scene: Retained) -> None:
    revoke(scene.store, scene.made.dataset, scene.roots[0], "bad-labels", scene.call())
    scene.gc()
    assert scene.roots[0] not in scene.objects()
    assert scene.view.body.candidates[scene.roots[0]].state == "INVALID"
    assert scene.gc().objects == ()


def test_a_retained_record_that_cannot_be_read_stops_it(scene: Retained) -> None:
    root = scene.roots[2]
    index = scene.made.release(root).objects.member_index
    key = object_key(index.digest)
    for fault in (Fault.ABSENT, Fault.FLIPPED, Fault.TRUNCATED, Fault.FAIL_BEFORE):
        broken = FaultyStore(scene.store, [Rule(operation="read", fault=fault, prefix=key, times=None)])
        before, sequence = scene.objects(), scene.view.body.sequence
        with pytest.raises(ShardrelError):
            collect(broken, scene.made.dataset, scene.call(), generations=0)
        assert (scene.objects(), scene.view.body.sequence) == (before, sequence)


def test_a_listing_that_breaks_off_stops_it(scene: Retained) -> None:
    broken = FaultyStore(scene.store, [Rule(operation="list", fault=Fault.FAIL_AFTER, prefix="objects/")])
    before = scene.objects()
    with pytest.raises(UnavailableError) as caught:
        collect(broken, scene.made.dataset, scene.call(), generations=0)
    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
    assert scene.objects() == before


def test_another_dataset_in_the_store_keeps_everything(scene: Retained) -> None:
    gates.new_gate(scene.store, dataset="other")
    done = scene.gc()
    assert (done.objects, done.retired, done.waiting) == ((), (), ("dataset:other",))


def test_what_is_retired_has_left_the_state(scene: Retained) -> None:
    before = scene.view.body.candidates.keys()
    planned = preview(scene.store, scene.made.dataset, generations=0)
    done = scene.gc("mine")
    assert set(done.retired) == before - scene.view.body.candidates.keys() == set(scene.roots[:2])
    assert (planned.retired, scene.gc("mine").retired, scene.gc().retired) == (done.retired, done.retired, ())


def test_a_gate_that_moves_while_it_reads_is_read_again(scene: Retained) -> None:
    moved: list[str] = []

    def back(_: str) -> None:
        if not moved:
            moved.append(rollback(scene.store, scene.made.dataset, scene.roots[1], "prod", scene.call()).root)

    racing = FaultyStore(scene.store, [Rule(operation="swap", fault=Fault.HOOK, hook=back)])
    done = collect(racing, scene.made.dataset, scene.call(), generations=0)
    assert set(done.kept.roots) == {scene.roots[1]}
    assert scene.whole(scene.roots[1])
    assert scene.roots[2] not in scene.objects()


class LockingStore(MemoryStore):
    """Keeps some objects whatever is asked of it; says so, or says that they are gone."""

    locked: frozenset[str] = frozenset()
    honest = True

    def delete(self, key: ObjectKey, version: str) -> bool:
        if any(key.endswith(one[7:]) for one in self.locked):
            return not self.honest
        return super().delete(key, version)


@pytest.mark.parametrize("honest", [True, False])
def test_what_a_lock_keeps_is_reported_and_not_counted(scene: Retained, honest: bool) -> None:
    store = LockingStore()
    assert isinstance(scene.store, MemoryStore)
    store._versions = scene.store._versions
    store.locked, store.honest = frozenset({scene.roots[0]}), honest
    scene.made.store = store
    done = scene.gc()
    assert [one.digest for one in done.locked] == [scene.roots[0]]
    assert scene.roots[0] not in {one.digest for one in done.objects}
    assert scene.view.body.retention.sweep is None


def swept_in_the_middle(scene: Retained, owner: str = "mine") -> None:
    """A collection that died after it had condemned everything."""
    dead = FaultyStore(scene.store, [Rule(operation="delete", fault=Fault.FAIL_BEFORE, times=None)])
    with pytest.raises(UnavailableError):
        collect(dead, scene.made.dataset, scene.call(owner), generations=0)
    assert scene.view.body.retention.sweep is not None


def test_while_objects_are_deleted_no_publication_begins_and_another_gc_keeps_off(scene: Retained) -> None:
    snapshot = scene.declare(9)
    swept_in_the_middle(scene)
    for attempt in (
        lambda: begin_publication(scene.store, scene.made.dataset, "p", snapshot, scene.call()),
        lambda: scene.gc("another"),
    ):
        with pytest.raises(RefusedError) as caught:
            attempt()
        assert caught.value.code == ErrorCode.RETENTION_SWEEP
        assert caught.value.context["owner"] == "mine"
    done = scene.gc("mine")
    assert done.resumed
    assert set(scene.roots[:2]) <= {one.digest for one in done.objects}
    assert begin_publication(scene.store, scene.made.dataset, "p", snapshot, scene.call()).resumed is False


def test_one_operation_collects_once(scene: Retained) -> None:
    first = scene.gc("mine")
    scene.release(8)
    scene.gc("another")
    again = scene.gc("mine", generations=0)
    assert (again.objects, again.resumed) == (first.objects, True)


def test_a_dead_gc_is_given_up_by_its_owner(scene: Retained) -> None:
    swept_in_the_middle(scene)
    done = scene.gc("another", abandon=frozenset({"mine"}))
    assert (done.resumed, scene.view.body.retention.sweep) == (True, None)
    assert scene.roots[0] not in scene.objects()


def test_a_gc_that_was_given_up_stops_before_its_next_deletion(scene: Retained) -> None:
    def taken_over(_: str) -> None:
        scene.gc("another", abandon=frozenset({"mine"}))

    # The look at the gate before the first batch comes right after the retiring swap and the reads behind it.
    swept_in_the_middle(scene)
    stalled = FaultyStore(scene.store, [Rule(operation="read", fault=Fault.HOOK, prefix="objects/", hook=taken_over)])
    with pytest.raises((RefusedError, ConflictError)) as caught:
        collect(stalled, scene.made.dataset, scene.call("mine"), generations=0)
    assert caught.value.code in {ErrorCode.RETENTION_SWEEP, ErrorCode.GATE_ASSUMPTION}
    assert scene.whole(scene.roots[2])


def test_a_run_starts_while_objects_are_deleted(scene: Retained) -> None:
    put(scene.store, b"what a dead checkpoint left", "application/octet-stream")
    swept_in_the_middle(scene)
    assert start(scene.store, scene.made.dataset, "prod", scene.call(), run_id="second").state == "open"


def test_a_revoked_root_is_not_lifted_by_what_was_said_while_it_was_deleted(scene: Retained) -> None:
    root = scene.roots[0]
    revoke(scene.store, scene.made.dataset, root, "bad-labels", scene.call())
    swept_in_the_middle(scene)
    body = scene.view.body
    report = gates.a_report(replace(body, dataset=scene.made.dataset), root)
    attach(scene, report, "verifier")
    attach(scene, gates.an_approval(body, root), "approver")
    for code in (ErrorCode.RETENTION_SWEEP, ErrorCode.GATE_INVALID_ROOT):
        with pytest.raises(RefusedError) as caught:
            admit(scene.store, scene.made.dataset, root, "prod", scene.call())
        assert caught.value.code == code
        if code == ErrorCode.RETENTION_SWEEP:
            scene.gc("mine")


def attach(scene: Retained, predicate, role: str) -> None:  # type: ignore[no-untyped-def]
    kind = REPORT_PREDICATE if role == "verifier" else APPROVAL_PREDICATE
    payload = statement(predicate.root, kind, predicate, "root")
    attestations.attach(scene.store, predicate.root, seal(payload, STATEMENT_PAYLOAD, [scene.made.keys[role]]))


def points(scene: Retained) -> int:
    """Store operations of an undisturbed collection."""
    counting = MortalStore(forked(scene).store, k=1 << 30, after=False)
    collect(counting, scene.made.dataset, scene.call("mine"), generations=0)
    return counting.count


def try_point(scene: Retained, k: int, *, after: bool) -> None:
    """Killed there and run again, it comes to the same end."""
    undisturbed = forked(scene)
    undisturbed.gc("mine")
    with pytest.raises(Killed):
        collect(MortalStore(scene.store, k, after=after), scene.made.dataset, scene.call("mine"), generations=0)
    assert scene.whole(scene.roots[2])
    scene.gc("mine")
    left = scene.objects()
    # Plans and transitions that a dead process left are the gate's, and stay.
    assert left >= set(root_closure(undisturbed.store, scene.roots[2]))
    assert not left & {
        one.digest for one in preview(undisturbed.store, undisturbed.made.dataset, generations=0).objects
    }
    assert not left & set(scene.roots[:2])
    assert scene.whole(scene.roots[2])
    assert scene.view.body.retention.sweep is None
    assert scene.gc().objects == ()
    assert len(read_history(scene.store, scene.view)) == scene.view.body.sequence


EVERY = 9


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_some_store_operations_it_goes_on(three: Retained, after: bool) -> None:
    total = points(three)
    assert total > 60
    for k in range(1 + after, total + 1, EVERY):
        try_point(forked(three), k, after=after)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_store_operation_it_goes_on(three: Retained, after: bool) -> None:
    for k in range(1, points(three) + 1):
        try_point(forked(three), k, after=after)


def test_a_cancelled_run_holds_nothing(scene: Retained) -> None:
    start(scene.store, scene.made.dataset, "prod", scene.call(), run_id="job")
    cancel(scene.store, scene.made.dataset, "job", scene.call())
    assert scene.gc().kept.commits == {}
