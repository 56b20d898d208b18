"""Drills about training jobs: ranks, recovery, checkpoints. None of them needs torch."""

import threading
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.checkpoint import commits
from shardrel.checkpoint.group import Group, SoloGroup
from shardrel.checkpoint.preflight import Installed
from shardrel.data import ledger
from shardrel.data.cache import ShardCache
from shardrel.digest import digest_of
from shardrel.drills.drill import NOTHING, Codes, Drill, refusal
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.ranks import run_ranks
from shardrel.drills.recording_store import RecordingStore
from shardrel.drills.scratch import RECORDS, Scene, Scratch, records_table
from shardrel.errors import ErrorCode, FormatError, RunFailedError
from shardrel.gate import runs
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord
from shardrel.records.run import RunRecord
from shardrel.store.layout import object_key
from shardrel.store.objects import put_record
from shardrel.train.admission import join
from shardrel.train.pin import PinnedRun, TrainPlan

_PLAN = TrainPlan(columns=("text",), global_batch=4)
# Long enough for the ranks that do come, whatever else the machine has to do.
_BARRIER_SECONDS = 3.0
_LONGEST_SECONDS = 20.0


def _joined(scene: Scene, group: Group, run: str) -> PinnedRun:
    cache = ShardCache(scene.scratch.folder / f"{scene.dataset}-cache", scene.store)
    return join(group, scene.store, cache, dataset=scene.dataset, run=run, plan=_PLAN)


def _failed(results: list[PinnedRun | BaseException | None]) -> Codes:
    """The codes of all ranks; nothing if one of them would have trained."""
    return [result.code if isinstance(result, RunFailedError) else NOTHING for result in results]


def _missing_rank(scratch: Scratch) -> Codes:
    """Two of three ranks come to the first barrier."""
    scene, _ = scratch.released("barrier-timeout")
    scene.start_run("run-barrier")

    def part(group: Group) -> PinnedRun | None:
        return None if group.rank == 2 else _joined(scene, group, "run-barrier")

    return _failed(run_ranks(3, part, timeout=_BARRIER_SECONDS)[:2])


def _mirrored(scratch: Scratch) -> Codes:
    """One of two ranks reads its shards from a mirror that changes a bit."""
    scene, root = scratch.released("malicious-mirror")
    scene.start_run("run-mirror")
    changed = [
        Rule(operation="read", prefix=object_key(shard.digest), fault=Fault.FLIPPED, times=None)
        for shard in scene.release(root).shards
    ]

    def part(group: Group) -> PinnedRun:
        return _joined(
            scene.behind(FaultyStore(scene.store, changed)) if group.rank == 1 else scene, group, "run-mirror"
        )

    return _failed([*run_ranks(2, part)])


def _slow(scratch: Scratch) -> Codes:
    """One of two ranks gets its shards so slowly that it is not through when the other one has waited enough."""
    scene, root = scratch.released("slow-retrieval")
    scene.start_run("run-slow")
    given_up = threading.Event()
    slow = [
        Rule(operation="read", prefix=object_key(shard.digest), fault=Fault.HOOK, times=None, hook=_waits(given_up))
        for shard in scene.release(root).shards
    ]

    def part(group: Group) -> PinnedRun | None:
        if group.rank == 1:
            _joined(scene.behind(FaultyStore(scene.store, slow)), group, "run-slow")
            return None
        try:
            return _joined(scene, group, "run-slow")
        finally:
            given_up.set()

    return _failed(run_ranks(2, part, timeout=_BARRIER_SECONDS)[:1])


def _waits(event: threading.Event) -> Callable[[str], None]:
    def hook(_: str) -> None:
        event.wait(_LONGEST_SECONDS)

    return hook


class _Resolver:
    """A rank that does not take the run record's root but what the alias points to now."""

    def __init__(self, group: Group, root: str) -> None:
        self._group = group
        self._root: str | None = root
        self.rank = group.rank
        self.world_size = group.world_size

    def exchange(self, message: bytes) -> list[bytes]:
        answers = self._group.exchange(message)
        if self._root is not None:
            with suppress(FormatError):
                # One message of the coordinator is the run record, behind one byte that says it succeeded.
                record = replace(json.decode(answers[0][1:], RunRecord), root=self._root)
                answers[0] = answers[0][:1] + json.encode(record)
                self._root = None
        return answers


def _other_alias(scratch: Scratch) -> Codes:
    """The alias moves on; then the job recovers, one of its ranks by what the alias says now."""
    scene, old = scratch.released("recovery-rereads-alias")
    scene.start_run("run-alias")
    new = scene.publish(records_table(RECORDS + 1))
    scene.vouch_for(new)
    scene.admit(new)
    recording = RecordingStore(scene.store)
    pin = _joined(scene.behind(recording), SoloGroup(), "run-alias")
    if pin.root != old or ("read", object_key(new)) in recording.requests:
        return [NOTHING]

    def part(group: Group) -> PinnedRun:
        return _joined(scene, _Resolver(group, new) if group.rank == 1 else group, "run-alias")

    return _failed([*run_ranks(2, part)])


def _late(scratch: Scratch) -> Codes:
    """An attempt that was given up for dead wakes after another one took its generation."""
    scene, _ = scratch.released("late-acknowledgement")
    scene.start_run("run-late")
    run = commits.read_run(scene.store, scene.dataset, "run-late")
    abandoned, second = _commit_record(scene, run, "abandoned"), _commit_record(scene, run, "second")
    permit = commits.require_permit(run)
    commits.admit(scene.store, scene.dataset, commits.install(scene.store, second), permit, scene.key("admin"))
    late = Installed(digest=digest_of(json.encode(abandoned)), record=abandoned)
    return [
        refusal(lambda: commits.install(scene.store, abandoned)),
        refusal(lambda: commits.admit(scene.store, scene.dataset, late, permit, scene.key("admin"))),
    ]


def _commit_record(scene: Scene, run: commits.RunState, attempt: str) -> CommitRecord:
    """The record of a complete checkpoint without tensors."""
    permit = commits.require_permit(run)
    cut = replace(ledger.genesis(run.root), step=1)
    manifest = CheckpointManifest(
        run_id=run.run_id,
        root=run.root,
        permit=permit,
        generation=run.next_generation,
        attempt=attempt,
        world_size=1,
        cut=cut,
        order=None,
        tensors=(),
        state={"model": None},
        required_state=("model",),
    )
    return CommitRecord(
        run_id=run.run_id,
        root=run.root,
        generation=run.next_generation,
        parent=run.parent,
        manifest=put_record(scene.store, manifest),
        attempt=attempt,
        operation_id=f"checkpoint-{attempt}",
        permit=permit,
        tombstone_watermark=run.tombstone_watermark,
        benchmark_fence=run.benchmark_fence,
        boundary=run.boundary,
        world_size=1,
        cut=cut,
    )


def _deleted_meanwhile(scratch: Scratch) -> Codes:
    """Somebody has a record deleted while a run is open; the run goes on to save a checkpoint."""
    scene, _ = scratch.released("deletion-during-run")
    scene.start_run("run-deletion")
    run = commits.read_run(scene.store, scene.dataset, "run-deletion")
    permit, record = commits.require_permit(run), _commit_record(scene, run, "after")
    scene.delete_one()
    installed = commits.install(scene.store, record)
    return [refusal(lambda: commits.admit(scene.store, scene.dataset, installed, permit, scene.key("admin")))]


def _same_name(scratch: Scratch) -> Codes:
    """A run's name is asked for again after the run has left the gate's state."""
    scene, _ = scratch.released("reused-run-name")
    scene.start_run("run-name")
    runs.finish(scene.store, scene.dataset, "run-name", scene.call("admin"))
    return [refusal(lambda: scene.start_run("run-name"))]


DRILLS = (
    Drill(
        name="barrier-timeout",
        about="A rank never comes to a barrier.",
        fault="Two of three ranks come; the third does nothing.",
        attack="missing rank",
        expected=ErrorCode.RUN_TIMEOUT,
        section="runs",
        conduct=_missing_rank,
    ),
    Drill(
        name="slow-retrieval",
        about="A host gets its data so slowly that its job never begins.",
        fault="One of two ranks is still reading its shards when the other one has waited for it long enough.",
        attack="slow retrieval (TUF)",
        expected=ErrorCode.RUN_TIMEOUT,
        section="runs",
        conduct=_slow,
    ),
    Drill(
        name="recovery-rereads-alias",
        about="A job recovers after its alias moved, and a rank takes the new root.",
        fault="The alias moves to another root; one of two ranks resolves it anew.",
        attack="split brain over data",
        expected=ErrorCode.RUN_ROOT_DISAGREEMENT,
        section="run-record",
        conduct=_other_alias,
    ),
    Drill(
        name="malicious-mirror",
        about="A mirror near the training hosts hands out other bytes.",
        fault="One of two ranks reads its shards with one bit changed.",
        attack="malicious mirror (TUF)",
        expected=ErrorCode.STORAGE_DIGEST,
        section="runs",
        conduct=_mirrored,
    ),
    Drill(
        name="deletion-during-run",
        about="A record is deleted while a run trains on it.",
        fault="The fence of tombstones advances under an open run, which then saves a checkpoint.",
        attack="use after deletion",
        expected=ErrorCode.PERMIT_CLOSED,
        section="transitions",
        conduct=_deleted_meanwhile,
    ),
    Drill(
        name="late-acknowledgement",
        about="A checkpoint attempt that was given up for dead finishes after all.",
        fault="It installs and submits its commit record after another attempt took the generation.",
        attack="late acknowledgement",
        expected=ErrorCode.GATE_CHECKPOINT_ORDER,
        section="checkpoints",
        conduct=_late,
    ),
    Drill(
        name="reused-run-name",
        about="A run that has ended is started a second time.",
        fault="A run ends and leaves the gate's state; its name is asked for again.",
        attack="name reuse",
        expected=ErrorCode.GATE_RUN_EXISTS,
        section="runs",
        conduct=_same_name,
    ),
)
