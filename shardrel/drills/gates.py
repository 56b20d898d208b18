"""Drills about the one mutable object: races, lost answers, and states put back."""

from shardrel.drills.drill import NOTHING, Codes, Drill, refusal
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.scratch import ALIAS, FENCE_STEP, RECORDS, Scene, Scratch, deletions, records_table
from shardrel.errors import ErrorCode
from shardrel.gate import fence
from shardrel.gate.evidence import gather
from shardrel.gate.log import read_entries
from shardrel.gate.register import submit
from shardrel.records.transition import Admit, Assume
from shardrel.store.layout import gate_key


def _vouched(scene: Scene) -> str:
    """Another root of the dataset, verified and approved."""
    root = scene.publish(records_table(RECORDS + 1))
    scene.vouch_for(root)
    return root


def _history(scene: Scene) -> list[str]:
    return [entry.digest for entry in read_entries(scene.store, scene.dataset)]


def _lost_acknowledgement(scratch: Scratch) -> Codes:
    """The swap lands and its answer does not; the same operation is run again."""
    scene, _ = scratch.released("lost-acknowledgement")
    root = _vouched(scene)
    before = len(_history(scene))
    silent = FaultyStore(scene.store, [Rule(operation="swap", prefix="gates/", fault=Fault.UNKNOWN_AFTER)])
    first = refusal(lambda: scene.behind(silent).admit(root, operation_id="flip"))
    again = scene.admit(root, operation_id="flip")
    once = again.repeated and again.generation == 2 and len(_history(scene)) == before + 1
    return [first if once else NOTHING]


def _a_b_a(scratch: Scratch) -> Codes:
    """A writer that saw A at generation 1 goes on after the alias went to B and came back to A."""
    scene, a = scratch.released("aba")
    b = _vouched(scene)
    seen = scene.view()
    scene.admit(b)
    scene.roll_back(a)
    request = Admit(assume=Assume(generation=1), alias=ALIAS, root=b)
    call = scene.call("admin")
    return [
        refusal(
            lambda: submit(
                scene.store,
                scene.dataset,
                request,
                operation_id="stalled",
                signers=call.signers,
                gather=lambda _: gather(scene.store, b, seen.policy),
                recorded_at=call.recorded_at,
                view=seen,
            )
        )
    ]


def _rolled_back(scratch: Scratch) -> Codes:
    """An old root that was not re-checked at today's fences."""
    scene, old = scratch.released("rollback")
    scene.admit(_vouched(scene))
    scene.delete_one()
    return [refusal(lambda: scene.roll_back(old))]


def _fast_forwarded(scratch: Scratch) -> Codes:
    """One advance takes more entries than the policy allows."""
    scene, _ = scratch.released("fast-forward")
    too_many = deletions(FENCE_STEP + 1)
    return [
        refusal(lambda: fence.advance(scene.store, scene.dataset, "tombstones", too_many, scene.call("admin")))
    ]  # fmt: skip


def _frozen(scratch: Scratch) -> Codes:
    """A releaser is shown the state of before another one's move."""
    scene, a = scratch.released("freeze")
    b = _vouched(scene)
    key = gate_key(scene.dataset)
    freezing = FaultyStore(scene.store, [Rule(operation="read", prefix=key, skip=1, fault=Fault.STALE_READ)])
    scene.behind(freezing).view()
    scene.admit(b)
    return [refusal(lambda: scene.behind(freezing).admit(a, expect=1))]


DRILLS = (
    Drill(
        name="lost-acknowledgement",
        about="A write lands and its answer is lost.",
        fault="The swap of the gate is made and its outcome is not told; the same operation is run again.",
        attack="lost acknowledgement",
        expected=ErrorCode.OUTCOME_SWAP,
        section="operations",
        conduct=_lost_acknowledgement,
    ),
    Drill(
        name="aba",
        about="An alias goes from A to B and back to A while a writer sleeps.",
        fault="A writer goes on with the token of the first A.",
        attack="ABA",
        expected=ErrorCode.GATE_GENERATION,
        section="gate-state",
        conduct=_a_b_a,
    ),
    Drill(
        name="rollback",
        about="An alias is moved back to a release that was never checked against what was deleted since.",
        fault="A rollback to a root whose reports end below today's fence.",
        attack="rollback (TUF)",
        expected=ErrorCode.GATE_FENCES,
        section="transitions",
        conduct=_rolled_back,
    ),
    Drill(
        name="fast-forward",
        about="A fence is driven so far ahead that nobody can follow.",
        fault="An advance of more entries than the policy allows at once.",
        attack="fast-forward (TUF)",
        expected=ErrorCode.FENCE_STEP,
        section="transitions",
        conduct=_fast_forwarded,
    ),
    Drill(
        name="freeze",
        about="Somebody is shown a state of the gate that is no longer true.",
        fault="A releaser reads the state of before another's move and decides on it.",
        attack="freeze (TUF)",
        expected=ErrorCode.GATE_GENERATION,
        section="operations",
        conduct=_frozen,
    ),
)
