"""The rule, a request after the other: what each needs, does, and is refused for."""

import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Evidence, LogFacts
from shardrel.gate.transitions.decide import MAX_ENTRIES
from shardrel.gate.transitions.policy import MAX_POLICY_BYTES
from shardrel.records.descriptor import RECORD_JSON, Descriptor
from shardrel.records.gate import GateBody, Head, Publication
from shardrel.records.policy import Role
from shardrel.records.transition import (
    Admit,
    AdmitCheckpoint,
    Assume,
    BeginPublication,
    EndPublication,
    EndRun,
    Init,
    RenewRun,
    Request,
    Revoke,
    Rollback,
    SetPolicy,
    StartRun,
)
from tests.support import gates
from tests.unit.gate.bodies import (
    OTHER,
    POLICY,
    ROOT,
    accepted,
    advance_evidence,
    advance_request,
    advanced,
    delta,
    descriptor,
    empty,
    evidence,
    good,
    ids,
    known,
    refused,
    seen,
)

ADMIT = Admit(alias="prod", root=ROOT)
START = StartRun(run="run-1", alias="prod")
COMMIT = gates.a_root("commit")


def admitted() -> GateBody:
    body = known()
    return accepted(body, ADMIT, good(body)).body


def running() -> GateBody:
    body = admitted()
    return accepted(body, START, good(body)).body


def checkpoint(body: GateBody, generation: int = 0, parent: str | None = None) -> AdmitCheckpoint:
    return AdmitCheckpoint(
        run="run-1", generation=generation, commit=COMMIT, parent=parent, step=8, permit=body.runs["run-1"].permit or ""
    )


REQUESTS: dict[str, tuple[Request, str]] = {
    "begin": (BeginPublication(publication="p", snapshot=ROOT), "verifier"),
    "admit": (ADMIT, "publisher"),
    "rollback": (Rollback(alias="prod", root=ROOT), "approver"),
    "advance": (advance_request(empty()), "verifier"),
    "revoke": (Revoke(root=ROOT, reason="x", report=None), "publisher"),
    "start": (START, "publisher"),
    "end": (EndRun(run="run-1", outcome="finished"), "verifier"),
    "set-policy": (SetPolicy(policy=descriptor("new"), previous=descriptor("policy")), "publisher"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_key_of_another_role_is_refused(name: str) -> None:
    request, signer = REQUESTS[name]
    body = running()
    assert refused(body, request, replace_signer(good(body), signer)) == ErrorCode.TRUST_ROLE


def replace_signer(given: Evidence, signer: str) -> Evidence:
    return evidence(*given.reports, approvals=given.approvals, signer=signer)


def test_a_role_with_a_threshold_asks_for_distinct_keys() -> None:
    body = known()
    role = Role(keys=gates.publics("admin", "admin-2"), threshold=2)
    policy = replace(POLICY, roles=replace(POLICY.roles, releaser=role))
    given = good(body)
    assert refused(body, ADMIT, given, policy) == ErrorCode.TRUST_ROLE
    both = Evidence(signers=ids("admin", "admin-2"), reports=given.reports, approvals=given.approvals)
    assert accepted(body, ADMIT, both, policy).role == "releaser"


def test_without_a_gate_only_init_is_possible() -> None:
    assert refused(None, ADMIT, evidence()) == ErrorCode.GATE_ABSENT
    request = Init(gate_id="g", dataset="d", policy=descriptor("policy"))
    assert refused(None, request, Evidence(signers=ids("publisher"), policy=POLICY)) == ErrorCode.TRUST_ROLE
    assert refused(empty(), request, Evidence(signers=ids("admin"), policy=POLICY)) == ErrorCode.GATE_EXISTS


def test_an_alias_moves_to_the_next_generation_and_the_old_publication_permit_closes() -> None:
    body = known(ROOT, OTHER)
    first = accepted(body, ADMIT, good(body))
    second = accepted(first.body, Admit(alias="prod", root=OTHER), good(first.body, OTHER))
    assert (first.effects.generation, second.effects.generation) == (1, 2)
    assert second.effects.closed_permits == (first.effects.opened_permit,)
    assert second.body.aliases["prod"].root == OTHER
    assert second.body.sequence == body.sequence + 2
    assert list(second.body.permits) == [second.effects.opened_permit]


@pytest.mark.parametrize(
    ("assume", "code"),
    [
        (Assume(gate_id="another"), ErrorCode.GATE_WRONG),
        (Assume(generation=0), ErrorCode.GATE_GENERATION),
        (Assume(generation=2), ErrorCode.GATE_GENERATION),
        (Assume(root=OTHER), ErrorCode.GATE_ASSUMPTION),
        (Assume(tombstone_watermark=1), ErrorCode.GATE_ASSUMPTION),
        (Assume(benchmark_fence=1), ErrorCode.GATE_ASSUMPTION),
    ],
)
def test_a_false_assumption_is_refused(assume: Assume, code: ErrorCode) -> None:
    body = admitted()
    assert refused(body, replace(ADMIT, assume=assume), good(body)) == code


def test_an_assumption_that_a_request_cannot_have_is_false() -> None:
    request = replace(advance_request(empty()), assume=Assume(generation=1))
    assert refused(empty(), request, advance_evidence(request)) == ErrorCode.GATE_GENERATION


def test_true_assumptions_change_nothing() -> None:
    body = admitted()
    assume = Assume(gate_id="gate", generation=1, root=ROOT, tombstone_watermark=0, benchmark_fence=0)
    assert accepted(body, replace(ADMIT, assume=assume), good(body)).effects.generation == 2


def test_a_rollback_goes_up_in_generations_and_only_to_what_was_admitted() -> None:
    body = known(ROOT, OTHER)
    back = Rollback(alias="prod", root=ROOT)
    assert refused(body, back, good(body)) == ErrorCode.GATE_NO_ALIAS
    first = accepted(body, ADMIT, good(body)).body
    assert refused(first, Rollback(alias="prod", root=OTHER), good(first, OTHER)) == ErrorCode.GATE_UNKNOWN_ROOT
    second = accepted(first, Admit(alias="prod", root=OTHER), good(first, OTHER)).body
    assert accepted(second, back, good(second)).effects.generation == 3


def test_a_revoked_root_is_rolled_back_to_only_if_it_was_admitted_once() -> None:
    body = known(ROOT, OTHER)
    first = accepted(body, ADMIT, good(body)).body
    for root, allowed in ((ROOT, True), (OTHER, False)):
        invalid = accepted(first, Revoke(root=root, reason="bad-labels", report=None), evidence()).body
        back = Rollback(alias="prod", root=root)
        if allowed:
            assert accepted(invalid, back, good(invalid, root)).effects.generation == 2
        else:
            assert refused(invalid, back, good(invalid, root)) == ErrorCode.GATE_UNKNOWN_ROOT


def test_a_rollback_to_a_root_that_was_not_checked_at_todays_fences_is_refused() -> None:
    body = admitted()
    later = advanced(body)
    assert refused(later, Rollback(alias="prod", root=ROOT), good(body)) == ErrorCode.GATE_FENCES


def test_an_advance_closes_every_permit_and_says_which_fence_it_was() -> None:
    body = running()
    request = advance_request(body)
    done = accepted(body, request, advance_evidence(request))
    assert set(done.effects.closed_permits) == set(body.permits)
    assert done.body.permits == {}
    run = done.body.runs["run-1"]
    assert run.permit is None
    assert run.closed is not None
    assert (run.closed.by, run.closed.watermark) == ("tombstones", 1)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (2, 2), (4, 4), (3, 2)])
def test_an_advance_begins_right_after_the_watermark_and_never_goes_back(first: int, last: int) -> None:
    body = advanced(known(), by=2)
    request = replace(advance_request(body), first=first, last=last)
    assert refused(body, request, advance_evidence(request)) == ErrorCode.FENCE_GAP


def test_an_advance_goes_on_from_the_log_that_holds() -> None:
    body = advanced(known())
    request = replace(advance_request(body), previous=descriptor("another"))
    assert refused(body, request, advance_evidence(request)) == ErrorCode.FENCE_GAP


def test_an_advance_is_bounded_in_step() -> None:
    body = known()
    policy = replace(POLICY, max_fence_step=10)
    request = advance_request(body, by=11)
    assert refused(body, request, advance_evidence(request), policy) == ErrorCode.FENCE_STEP
    request = advance_request(body, by=10)
    assert accepted(body, request, advance_evidence(request), policy)


def test_an_advance_takes_what_was_read_back_and_nothing_else() -> None:
    request = advance_request(known(), by=2)
    facts = LogFacts(previous=None, log=request.log, first=1, last=1)
    assert refused(known(), request, Evidence(signers=ids("admin"), log=facts)) == ErrorCode.FENCE_CONFLICT
    assert refused(known(), request, Evidence(signers=ids("admin"))) == ErrorCode.FENCE_CONFLICT


def test_a_revocation_closes_the_permits_of_its_root_alone() -> None:
    body = known(ROOT, OTHER)
    body = accepted(body, ADMIT, good(body)).body
    body = accepted(body, START, good(body)).body
    body = accepted(body, Admit(alias="dev", root=OTHER), good(body, OTHER)).body
    done = accepted(body, Revoke(root=ROOT, reason="bad", report=None), evidence())
    assert [permit.root for permit in done.body.permits.values()] == [OTHER]
    assert done.body.candidates[ROOT].state == "INVALID"
    assert done.body.runs["run-1"].closed is not None
    assert refused(done.body, START, good(body)) == ErrorCode.GATE_RUN_EXISTS
    again = StartRun(run="run-2", alias="prod")
    assert refused(done.body, again, good(body)) == ErrorCode.GATE_INVALID_ROOT


def test_a_revocation_names_a_known_root_and_a_trusted_failed_report() -> None:
    body = known()
    assert refused(body, Revoke(root=OTHER, reason="x", report=None), evidence()) == ErrorCode.GATE_UNKNOWN_ROOT
    failed = seen(gates.a_report(body, ROOT, hits=1))
    passed = seen(gates.a_report(body, ROOT))
    by_publisher = seen(gates.a_report(body, ROOT, hits=2), "publisher")
    request = Revoke(root=ROOT, reason="x", report=failed.envelope)
    assert accepted(body, request, evidence(failed)).attestations == (failed.envelope,)
    for other in (passed, by_publisher):
        bad = replace(request, report=other.envelope)
        assert refused(body, bad, evidence(failed, other)) == ErrorCode.TRUST_SUBJECT


def test_the_report_of_one_verifier_is_ground_enough_where_a_pass_asks_for_two() -> None:
    body, verifier = known(), POLICY.roles.verifier
    two = replace(verifier, keys=(*verifier.keys, gates.key("second").public), threshold=2)
    policy = replace(POLICY, roles=replace(POLICY.roles, verifier=two))
    failed = seen(gates.a_report(body, ROOT, hits=1), "second")
    request = Revoke(root=ROOT, reason="x", report=failed.envelope)
    assert accepted(body, request, evidence(failed), policy).body.candidates[ROOT].state == "INVALID"
    assert refused(body, request, evidence(failed)) == ErrorCode.TRUST_SUBJECT


def test_a_run_is_pinned_at_the_alias_and_an_alias_move_closes_nothing_of_it() -> None:
    body = known(ROOT, OTHER)
    body = accepted(body, ADMIT, good(body)).body
    started = accepted(body, START, good(body))
    moved = accepted(started.body, Admit(alias="prod", root=OTHER), good(body, OTHER)).body
    run = moved.runs["run-1"]
    assert (run.root, run.generation, run.permit) == (ROOT, 1, started.effects.opened_permit)
    assert run.permit in moved.permits


def test_a_run_starts_only_on_an_alias_that_is_there_and_under_a_fresh_id() -> None:
    body = running()
    assert refused(body, START, good(body)) == ErrorCode.GATE_RUN_EXISTS
    assert refused(body, StartRun(run="run-2", alias="none"), good(body)) == ErrorCode.GATE_NO_ALIAS
    used = Evidence(signers=ids("admin"), reports=good(body).reports, run_recorded=True)
    assert refused(body, StartRun(run="run-2", alias="prod"), used) == ErrorCode.GATE_RUN_EXISTS


def test_a_run_needs_no_second_approval_but_a_report_at_todays_fences() -> None:
    body = admitted()
    reports = good(body).reports
    assert accepted(body, START, evidence(*reports))
    assert refused(advanced(body), START, evidence(*reports)) == ErrorCode.GATE_FENCES


def test_a_renewal_asks_for_a_recheck_then_opens_a_new_permit_on_the_same_root() -> None:
    body = running()
    full = good(body).reports[0]
    later = advanced(body, "benchmarks")
    renew = RenewRun(run="run-1")
    assert refused(later, renew, evidence(full)) == ErrorCode.PERMIT_RECHECK
    assert refused(later, renew, evidence()) == ErrorCode.PERMIT_RECHECK
    assert refused(later, renew, evidence(full, seen(delta(body, later, hits=1)))) == ErrorCode.PERMIT_HIT
    done = accepted(later, renew, evidence(full, seen(delta(body, later))))
    run = done.body.runs["run-1"]
    assert (run.root, run.permit, run.closed) == (ROOT, done.effects.opened_permit, None)
    assert done.effects.opened_permit not in body.permits


def test_a_run_that_ended_is_told_from_one_that_never_was() -> None:
    body = running()
    ended = accepted(body, EndRun(run="run-1", outcome="finished"), evidence())
    assert (ended.body.runs, next(iter(ended.body.permits.values())).kind) == ({}, "publication")
    recorded = Evidence(signers=ids("admin"), run_recorded=True)
    for request in (EndRun(run="run-1", outcome="cancelled"), RenewRun(run="run-1"), checkpoint(body)):
        assert refused(ended.body, request, recorded) == ErrorCode.GATE_RUN_ENDED
        assert refused(ended.body, request, evidence()) == ErrorCode.GATE_NO_RUN


def test_checkpoints_follow_each_other() -> None:
    body = running()
    first = accepted(body, checkpoint(body), evidence()).body
    assert first.runs["run-1"].head == Head(generation=0, commit=COMMIT, step=8)
    for generation, parent in ((0, None), (1, None), (1, ROOT), (2, COMMIT)):
        assert refused(first, checkpoint(first, generation, parent), evidence()) == ErrorCode.GATE_CHECKPOINT_ORDER
    assert accepted(first, checkpoint(first, 1, COMMIT), evidence()).body.runs["run-1"].head.generation == 1  # type: ignore[union-attr]
    assert refused(body, checkpoint(body, 1, COMMIT), evidence()) == ErrorCode.GATE_CHECKPOINT_ORDER


def test_a_checkpoint_needs_the_runs_open_permit() -> None:
    body = running()
    request = checkpoint(body)
    assert refused(body, replace(request, permit="another"), evidence()) == ErrorCode.PERMIT_CLOSED
    later = advanced(body)
    assert refused(later, request, evidence()) == ErrorCode.PERMIT_CLOSED
    renewed = accepted(later, RenewRun(run="run-1"), evidence(*good(body).reports, seen(delta(body, later)))).body
    assert refused(renewed, request, evidence()) == ErrorCode.PERMIT_CLOSED
    assert accepted(renewed, checkpoint(renewed), evidence())


def test_a_publication_pins_its_snapshot_until_it_ends() -> None:
    begin = BeginPublication(publication="p", snapshot=OTHER)
    begun = accepted(empty(), begin, evidence(signer="publisher"))
    assert (begun.role, begun.body.publications) == ("publisher", {"p": Publication(snapshot=OTHER, sequence=2)})
    assert refused(begun.body, begin, evidence()) == ErrorCode.GATE_PUBLICATION_EXISTS
    ended = accepted(begun.body, EndPublication(publication="p", root=ROOT), evidence())
    assert (ended.role, ended.body.publications) == ("releaser", {})
    assert ended.body.candidates[ROOT].state == "STAGED"
    again = EndPublication(publication="p", root=ROOT)
    assert refused(ended.body, again, evidence()) == ErrorCode.GATE_NO_PUBLICATION


def test_publishing_a_known_root_again_does_not_change_its_state() -> None:
    body = accepted(known(), Revoke(root=ROOT, reason="x", report=None), evidence()).body
    body = accepted(body, BeginPublication(publication="p", snapshot=OTHER), evidence()).body
    ended = accepted(body, EndPublication(publication="p", root=ROOT), evidence()).body
    assert ended.candidates[ROOT].state == "INVALID"


def test_a_publication_that_is_given_up_leaves_nothing() -> None:
    begun = accepted(empty(), BeginPublication(publication="p", snapshot=OTHER), evidence()).body
    ended = accepted(begun, EndPublication(publication="p", root=None), evidence()).body
    assert (ended.publications, ended.candidates) == ({}, {})


def test_a_new_policy_needs_the_governors_of_both() -> None:
    body = empty()
    new = replace(POLICY, roles=replace(POLICY.roles, governor=Role(keys=gates.publics("governor-2"), threshold=1)))
    request = SetPolicy(policy=descriptor("new"), previous=body.policy)
    one = Evidence(signers=ids("admin"), policy=new)
    assert refused(body, request, one) == ErrorCode.TRUST_THRESHOLD
    other = Evidence(signers=ids("governor-2"), policy=new)
    assert refused(body, request, other) == ErrorCode.TRUST_ROLE
    both = Evidence(signers=ids("admin", "governor-2"), policy=new)
    assert accepted(body, request, both).body.policy == request.policy
    stale = replace(request, previous=descriptor("older"))
    assert refused(body, stale, both) == ErrorCode.GATE_ASSUMPTION


def test_a_policy_that_a_state_cannot_hold_is_refused() -> None:
    large = Descriptor(media_type=RECORD_JSON, digest=gates.a_root("large"), size=MAX_POLICY_BYTES + 1)
    signed = Evidence(signers=ids("admin"), policy=POLICY)
    assert refused(None, Init(gate_id="g", dataset="d", policy=large), signed) == ErrorCode.GATE_LIMIT
    assert refused(empty(), SetPolicy(policy=large, previous=empty().policy), signed) == ErrorCode.GATE_LIMIT


def test_a_rotation_needs_enough_of_the_old_and_of_the_new_keys() -> None:
    """Keys 1, 2, 3 give way to 4, 5, 6, each with a threshold of 3: two old ones are too few."""
    old = replace(POLICY, roles=replace(POLICY.roles, governor=Role(keys=gates.publics("k1", "k2", "k3"), threshold=3)))
    new = replace(POLICY, roles=replace(POLICY.roles, governor=Role(keys=gates.publics("k4", "k5", "k6"), threshold=3)))
    request = SetPolicy(policy=descriptor("new"), previous=empty().policy)
    few = Evidence(signers=ids("k1", "k2", "k4", "k5", "k6"), policy=new)
    assert refused(empty(), request, few, old) == ErrorCode.TRUST_ROLE
    enough = Evidence(signers=ids("k1", "k2", "k3", "k4", "k5", "k6"), policy=new)
    assert accepted(empty(), request, enough, old)


def test_a_gate_is_bounded_and_what_is_full_can_still_shrink() -> None:
    pin = Publication(snapshot=ROOT, sequence=1)
    full = replace(empty(), publications={f"p{at}": pin for at in range(MAX_ENTRIES)})
    assert refused(full, BeginPublication(publication="q", snapshot=ROOT), evidence()) == ErrorCode.GATE_LIMIT
    assert accepted(full, EndPublication(publication="p0", root=None), evidence())


def test_permits_never_share_a_name() -> None:
    body = running()
    later = accepted(body, ADMIT, good(body))
    assert later.effects.opened_permit not in body.permits
    assert len({*body.permits, later.effects.opened_permit}) == 3
