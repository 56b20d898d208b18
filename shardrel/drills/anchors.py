"""Drills that only an anchor outside of the store answers: what is shown was true once, or is of another gate."""

from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.drills.drill import Codes, Drill, refusal
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.scratch import RECORDS, SECOND, STRANGER, Scene, Scratch, records_table
from shardrel.errors import ErrorCode
from shardrel.gate.anchor import Anchored, extend, must_extend
from shardrel.gate.facts import Evidence
from shardrel.gate.history import read_history
from shardrel.gate.policy import set_policy
from shardrel.gate.register import submit
from shardrel.records.descriptor import ENVELOPE_JSON
from shardrel.records.policy import Role
from shardrel.records.transition import Init
from shardrel.store.layout import gate_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put, put_record, unversioned
from shardrel.store.port import Stored
from shardrel.trust.policy import replaced


def _moved(scene: Scene) -> None:
    """The alias goes to another root."""
    root = scene.publish(records_table(RECORDS + 1))
    scene.vouch_for(root)
    scene.admit(root)


def _export(scene: Scene, by: str = "admin") -> str:
    """What a governor keeps elsewhere."""
    view = scene.view()
    return extend(scene.store, view, read_history(scene.store, view), None, [scene.key(by)]).text


def _held(scene: Scene, kept: str) -> Anchored:
    view = scene.view()
    return must_extend(scene.store, view, read_history(scene.store, view), kept)


def _state(scene: Scene) -> Stored:
    stored = scene.store.read(gate_key(scene.dataset), max_bytes=json.MAX_RECORD_BYTES)
    assert stored is not None
    return stored


def _put_back(scratch: Scratch) -> Codes:
    """The gate's state of before is written over the state of now."""
    scene, _ = scratch.released("gate-rollback")
    old = _state(scene)
    _moved(scene)
    kept = _export(scene)
    scene.store.swap(gate_key(scene.dataset), old.data, _state(scene).token)
    return [refusal(lambda: _held(scene, kept))]


def _replaced(scratch: Scratch) -> Codes:
    """A thief's gate, begun elsewhere under the same name and id with his key as the governor's, is written over ours."""
    scene, _ = scratch.released("gate-replaced")
    kept, gate_id, rules = _export(scene), scene.view().body.gate_id, scene.view().policy
    thief = scene.key(STRANGER)
    policy = replace(rules, roles=replace(rules.roles, governor=Role(keys=(thief.public,), threshold=1)))
    lair = scene.behind(MemoryStore())
    put_record(scene.store, policy)
    submit(
        lair.store,
        scene.dataset,
        Init(gate_id=gate_id, dataset=scene.dataset, policy=unversioned(put_record(lair.store, policy))),
        operation_id="thief",
        signers=[thief],
        gather=lambda _: Evidence(signers=frozenset(), policy=policy),
        recorded_at=scratch.now(),
    )
    put(scene.store, lair.view().state.envelope.encode(), ENVELOPE_JSON)
    scene.store.swap(gate_key(scene.dataset), _state(lair).data, _state(scene).token)
    return [refusal(lambda: _held(scene, kept))]


def _forked(scratch: Scratch) -> Codes:
    """A key that has left the policy goes on from the state in which it still counted, which was put back."""
    scene, _ = scratch.released("retired-key")
    old, rules = _state(scene), scene.view().policy
    successor = scene.key(SECOND)
    set_policy(
        scene.store,
        scene.dataset,
        replaced(rules, scene.key("admin").public, successor.public),
        scene.call("admin", SECOND),
    )
    kept = _export(scene, by=SECOND)
    scene.store.swap(gate_key(scene.dataset), old.data, _state(scene).token)
    scene.delete_one()
    return [refusal(lambda: _held(scene, kept))]


def _frozen(scratch: Scratch) -> Codes:
    """A reader is shown one state of the gate for ever."""
    scene, _ = scratch.released("indefinite-freeze")
    frozen = scene.behind(
        FaultyStore(
            scene.store,
            [Rule(operation="read", prefix=gate_key(scene.dataset), skip=1, times=None, fault=Fault.STALE_READ)],
        )
    )
    frozen.view()
    _moved(scene)
    kept = _export(scene)
    return [refusal(lambda: _held(frozen, kept))]


DRILLS = (
    Drill(
        name="gate-rollback",
        about="A holder of raw write credentials puts an older gate state back.",
        fault="The state object is overwritten with its earlier bytes; the history is held against a kept export.",
        attack="rollback of the register",
        expected=ErrorCode.GATE_HISTORY,
        section="anchor",
        conduct=_put_back,
    ),
    Drill(
        name="gate-replaced",
        about="A holder of raw write credentials puts a gate of his own in the place of one.",
        fault="A gate of the same name and id is begun under another policy; the history is held against a kept export.",
        attack="replacement of the register",
        expected=ErrorCode.GATE_HISTORY,
        section="anchor",
        conduct=_replaced,
    ),
    Drill(
        name="retired-key",
        about="A key that was rotated out is stolen, together with credentials to the store.",
        fault="The state of before the rotation is put back and moved on by the old key; held against a kept export.",
        attack="fork by a retired key",
        expected=ErrorCode.GATE_HISTORY,
        section="anchor",
        conduct=_forked,
    ),
    Drill(
        name="indefinite-freeze",
        about="Somebody between a reader and the store shows him the same state for ever.",
        fault="All reads of the gate give an earlier state; the history is held against an export made since.",
        attack="indefinite freeze (TUF)",
        expected=ErrorCode.GATE_HISTORY,
        section="anchor",
        conduct=_frozen,
    ),
)
