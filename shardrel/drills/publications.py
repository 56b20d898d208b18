"""Drills about what may become visible, and by whose word."""

import functools

from msgspec.structs import replace

from shardrel.drills.drill import NOTHING, Codes, Drill, refusal
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.recording_store import RecordingStore
from shardrel.drills.scratch import RECORDS, SECOND, STRANGER, Scene, Scratch, records_table, scratch_policy
from shardrel.errors import ErrorCode
from shardrel.gate.gc import collect
from shardrel.gate.publication import begin_publication
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.policy import Role
from shardrel.records.report import Counts, Report
from shardrel.store.layout import attestation_prefix
from shardrel.store.objects import put_record


def _partial(scratch: Scratch) -> Codes:
    """A publication dies just before its last transition; the root lies there, provenance and all."""
    scene = scratch.scene("partial-publication")
    recording = RecordingStore(scene.store)
    # The first swap pins the publication; the second one would make its root a candidate.
    dying = FaultyStore(
        recording, [Rule(operation="swap", prefix="gates/", skip=1, times=None, fault=Fault.FAIL_BEFORE)]
    )
    refusal(lambda: scene.behind(dying).publish(records_table(RECORDS)))
    lying = [
        key.split("/")[1] for _, key in recording.requests if key.startswith("attestations/") and key.count("/") == 2
    ]
    refused = [refusal(functools.partial(scene.admit, f"sha256:{root}")) for root in dict.fromkeys(lying)]
    finished = scene.publish(records_table(RECORDS))
    return refused if finished.endswith(lying[-1]) else [NOTHING]


def _stale_listing(scratch: Scratch) -> Codes:
    """A listing does not show the report and the approval that are there."""
    scene, _ = scratch.released("stale-listing")
    root = scene.publish(records_table(RECORDS + 1))
    lagging = FaultyStore(
        scene.store, [Rule(operation="list", prefix=attestation_prefix(root), skip=1, fault=Fault.STALE_LIST)]
    )
    list(lagging.list(attestation_prefix(root)))
    scene.vouch_for(root)
    refused = refusal(lambda: scene.behind(lagging).admit(root))
    # It only ever says no for want of evidence: once the listing has caught up, the same call goes through.
    return [refused if scene.admit(root).generation == 2 else NOTHING]


def _wrong_dataset(scratch: Scratch) -> Codes:
    """A sound root of another dataset, staged here."""
    scene, _ = scratch.released("wrong-dataset")
    _, foreign = scratch.released("another-dataset")
    scene.stage(foreign)
    return scene.judged(foreign)


def _given_up(scratch: Scratch) -> Codes:
    """Retention gives up a publisher that stalls, and another one takes its name; then it wakes."""
    scene = scratch.scene("name-reuse-after-retention")

    def meanwhile(key: str) -> None:
        [(name, pin)] = scene.view().body.publications.items()
        collect(scene.store, scene.dataset, scene.call("admin"), abandon=frozenset({name}))
        begin_publication(scene.store, scene.dataset, name, pin.snapshot, scene.call("publisher"))

    # Its objects are written; what it does next is to sign for them.
    stalling = FaultyStore(
        scene.store, [Rule(operation="create", prefix="attestations/", fault=Fault.HOOK, hook=meanwhile)]
    )
    return [refusal(lambda: scene.behind(stalling).publish(records_table(RECORDS)))]


def _claimed(scratch: Scratch) -> Codes:
    """A root says that it was cleaned up to a fence that the gate has not reached."""
    scene, root = scratch.released("claimed-watermark")
    forgery = scene.forgery(root)
    forgery.release = replace(forgery.release, tombstone_watermark=1_000_000)
    forgery.refit(scratch.tools.put_index)
    return scene.judged(scene.seal(forgery))


def _hidden_change(scratch: Scratch) -> Codes:
    """A column is gone since the release that a root names, and its report of schema evolution says: no change."""
    scene, root = scratch.released("hidden-schema-change")
    narrower = records_table(RECORDS).drop_columns(["score"])
    forgery = scene.forgery(scene.publish(narrower))
    claim = SchemaEvolution(
        previous=root,
        previous_schema=scene.release(root).record_schema,
        record_schema=forgery.release.record_schema,
        renames=(),
        changes=(),
    )
    forgery.release = replace(forgery.release, schema_evolution=put_record(scene.store, claim))
    return scene.judged(scene.seal(forgery))


def _arbitrary(scratch: Scratch) -> Codes:
    """A stranger who may write to the bucket attests his own root with keys of his own."""
    scene, root = scratch.released("arbitrary-installation")
    forgery = scene.forgery(root)
    forgery.declare(0, replace(forgery.release.shards[0], tokens=forgery.release.shards[0].tokens + 1))
    forged = forgery.put_root()
    scene.attest(_all_is_well(scene, forged), STRANGER)
    if refusal(lambda: scene.stage(forged, by=STRANGER)) == NOTHING:
        return [NOTHING]
    return [refusal(lambda: scene.admit(forged))]


def _one_stolen_key(scratch: Scratch) -> Codes:
    """One of two verifier keys is stolen, and its thief calls a forged root sound."""
    policy = scratch_policy(scratch.keys)
    both = tuple(scratch.keys[name].public for name in ("verifier", SECOND))
    roles = replace(policy.roles, verifier=Role(keys=both, threshold=2))
    scene = scratch.scene("key-compromise", policy=replace(policy, roles=roles))
    forgery = scene.forgery(scene.publish(records_table(RECORDS)))
    forgery.declare(0, replace(forgery.release.shards[0], tokens=forgery.release.shards[0].tokens + 1))
    forged = scene.seal(forgery)
    scene.attest(_all_is_well(scene, forged), "verifier")
    scene.approve(forged)
    return [refusal(lambda: scene.admit(forged))]


def _all_is_well(scene: Scene, root: str) -> Report:
    """A report that says PASSED, whatever the verifier found."""
    found = scene.verify(root, by=STRANGER)
    return replace(found, verdict="PASSED", counts=Counts(), findings=(), findings_total=0)


DRILLS = (
    Drill(
        name="partial-publication",
        about="A publisher is killed before its release is whole.",
        fault="The store stops answering just before the gate learns of the root.",
        attack="torn publication",
        expected=ErrorCode.GATE_UNKNOWN_ROOT,
        section="publish",
        conduct=_partial,
    ),
    Drill(
        name="name-reuse-after-retention",
        about="A writer stalls, retention deletes what it wrote, and its name is taken anew.",
        fault="A publisher wakes after its publication was given up, swept and begun by another.",
        attack="name reuse after retention",
        expected=ErrorCode.GATE_NO_PUBLICATION,
        section="retention",
        conduct=_given_up,
    ),
    Drill(
        name="stale-listing",
        about="A listing lags behind what was written.",
        fault="The attestations of a root are listed as they were before its report.",
        attack="stale listing",
        expected=ErrorCode.GATE_NOT_VERIFIED,
        section="store",
        conduct=_stale_listing,
    ),
    Drill(
        name="wrong-dataset",
        about="A sound release of one dataset is passed off as one of another.",
        fault="The root of another dataset is staged, verified and approved here.",
        attack="wrong software (TUF)",
        expected=ErrorCode.ROOT_DATASET,
        section="verification",
        conduct=_wrong_dataset,
    ),
    Drill(
        name="claimed-watermark",
        about="A release claims to be clean of deletions that nobody has asked for yet.",
        fault="The root's watermark of tombstones lies far above the gate's; everything else made anew.",
        attack="fast-forward (TUF)",
        expected=ErrorCode.ROOT_AHEAD,
        section="verification",
        conduct=_claimed,
    ),
    Drill(
        name="hidden-schema-change",
        about="A column goes, and the release says that nothing has changed.",
        fault="A column less than in the previous root that is named, under a report without changes.",
        attack="schema confusion",
        expected=ErrorCode.EVOLUTION_MISMATCH,
        section="schema-evolution",
        conduct=_hidden_change,
    ),
    Drill(
        name="arbitrary-installation",
        about="Somebody who may write to the bucket releases what he likes.",
        fault="A root whose report and candidacy are signed by a key that no policy names.",
        attack="arbitrary installation (TUF)",
        expected=ErrorCode.GATE_UNKNOWN_ROOT,
        section="trust",
        conduct=_arbitrary,
    ),
    Drill(
        name="key-compromise",
        about="One of two verifier keys is stolen.",
        fault="A PASSED report of a forged root, signed by one key where the policy asks for two.",
        attack="key compromise (TUF)",
        expected=ErrorCode.GATE_NOT_VERIFIED,
        section="policy",
        conduct=_one_stolen_key,
    ),
)
