"""Whether a root may be used: chains of reports, approvals, and what lifts an invalidation."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.eligibility import withheld
from shardrel.records.gate import Candidate, Fence
from shardrel.records.policy import Role
from shardrel.records.report import Counts, LogRange
from shardrel.records.transition import Admit, Revoke
from tests.support import gates
from tests.unit.gate.bodies import (
    OTHER,
    POLICY,
    ROOT,
    accepted,
    advanced,
    delta,
    evidence,
    good,
    known,
    refused,
    said,
    seen,
)

ADMIT = Admit(alias="prod", root=ROOT)


def approved(body, *reports):  # type: ignore[no-untyped-def]
    """Evidence of these reports and an approval."""
    return evidence(*reports, approvals=(said(gates.an_approval(body, ROOT)),))


def test_an_unknown_root_is_refused() -> None:
    assert refused(known(OTHER), ADMIT, good(known())) == ErrorCode.GATE_UNKNOWN_ROOT


def test_a_root_without_a_report_is_refused() -> None:
    assert refused(known(), ADMIT, approved(known())) == ErrorCode.GATE_NOT_VERIFIED


def test_a_report_by_a_key_that_is_not_the_verifiers_does_not_count() -> None:
    body = known()
    report = seen(gates.a_report(body, ROOT), "publisher")
    assert refused(body, ADMIT, approved(body, report)) == ErrorCode.GATE_NOT_VERIFIED


def test_a_report_about_another_root_gate_or_dataset_does_not_count() -> None:
    body = known()
    report = gates.a_report(body, ROOT)
    for other in (
        replace(report, root=OTHER),
        replace(report, gate_id="another"),
        replace(report, dataset="another"),
    ):
        assert refused(body, ADMIT, approved(body, seen(other))) == ErrorCode.GATE_NOT_VERIFIED


def test_a_passed_report_that_counts_something_does_not_count() -> None:
    body = known()
    for count in Counts.__struct_fields__:
        report = replace(gates.a_report(body, ROOT), counts=Counts(**{count: 1}))
        assert refused(body, ADMIT, approved(body, seen(report))) in (ErrorCode.GATE_NOT_VERIFIED, ErrorCode.PERMIT_HIT)
    findings = replace(gates.a_report(body, ROOT), findings_total=1)
    assert refused(body, ADMIT, approved(body, seen(findings))) == ErrorCode.GATE_NOT_VERIFIED


def test_the_reports_have_to_reach_exactly_todays_fences() -> None:
    before = known()
    full = seen(gates.a_report(before, ROOT))
    after = advanced(before)
    assert refused(after, ADMIT, approved(after, full)) == ErrorCode.GATE_FENCES
    assert accepted(after, ADMIT, approved(after, full, seen(delta(before, after))))


def test_a_chain_goes_over_several_advances_of_both_fences_in_any_steps() -> None:
    first = known()
    second = advanced(first, "tombstones", 3)
    third = advanced(second, "benchmarks", 2)
    fourth = advanced(advanced(third, "tombstones"), "benchmarks")
    full = seen(gates.a_report(first, ROOT))
    steps = [seen(delta(a, b)) for a, b in ((first, second), (second, third), (third, fourth))]
    assert accepted(fourth, ADMIT, approved(fourth, *reversed(steps), full)).attestations[0] == full.envelope
    for missing in range(3):
        some = [step for at, step in enumerate(steps) if at != missing]
        assert refused(fourth, ADMIT, approved(fourth, full, *some)) == ErrorCode.GATE_FENCES


def test_a_delta_alone_is_no_verification() -> None:
    before = known()
    after = advanced(before)
    assert refused(after, ADMIT, approved(after, seen(delta(before, after)))) == ErrorCode.GATE_NOT_VERIFIED


def test_a_full_report_scans_the_logs_from_their_first_entry() -> None:
    body = advanced(advanced(known()), by=2)
    part = replace(gates.a_report(body, ROOT), tombstones=gates.log_range(2, 3, body.tombstones))
    assert refused(body, ADMIT, approved(body, seen(part))) == ErrorCode.GATE_FENCES


def test_a_report_over_another_log_of_the_same_length_does_not_count() -> None:
    body = advanced(known())
    foreign = LogRange(first=1, last=1, log=gates.a_root("another log"))
    report = replace(gates.a_report(body, ROOT), tombstones=foreign)
    assert refused(body, ADMIT, approved(body, seen(report))) == ErrorCode.GATE_FENCES


def test_a_report_beyond_the_gates_fences_does_not_count() -> None:
    body = advanced(known())
    ahead = replace(body, tombstones=Fence(watermark=5, log=body.tombstones.log))
    assert refused(body, ADMIT, approved(body, seen(gates.a_report(ahead, ROOT)))) == ErrorCode.GATE_FENCES


def test_a_hit_refuses_with_its_own_code() -> None:
    before = known()
    after = advanced(before)
    hit = seen(delta(before, after, hits=1))
    full = seen(gates.a_report(before, ROOT))
    assert refused(after, ADMIT, approved(after, full, hit)) == ErrorCode.PERMIT_HIT


def test_a_failed_report_beside_a_sufficient_chain_takes_nothing_away() -> None:
    """Else whoever may attach could revoke; what revokes is a transition."""
    body = known()
    failed = seen(gates.a_report(body, ROOT, hits=1))
    assert accepted(body, ADMIT, approved(body, failed, seen(gates.a_report(body, ROOT))))


def test_a_threshold_of_verifiers_counts_distinct_keys_on_each_link() -> None:
    body = known()
    role = Role(keys=gates.publics("verifier", "verifier-2"), threshold=2)
    policy = replace(POLICY, roles=replace(POLICY.roles, verifier=role))
    one, again = gates.a_report(body, ROOT), replace(gates.a_report(body, ROOT), verifier="again")
    assert refused(body, ADMIT, approved(body, seen(one), seen(again)), policy) == ErrorCode.GATE_NOT_VERIFIED
    assert accepted(body, ADMIT, approved(body, seen(one), seen(again, "verifier-2")), policy)


def test_approvals_count_distinct_approvers() -> None:
    body = known()
    role = Role(keys=gates.publics("approver", "approver-2"), threshold=2)
    policy = replace(POLICY, roles=replace(POLICY.roles, approver=role))
    report = seen(gates.a_report(body, ROOT))
    yes = gates.an_approval(body, ROOT)
    later = replace(yes, approved_on="2026-02-01T00:00:00Z")
    twice = evidence(report, approvals=(said(yes), said(later)))
    assert refused(body, ADMIT, twice, policy) == ErrorCode.GATE_NOT_APPROVED
    two = evidence(report, approvals=(said(yes), said(later, "approver-2")))
    assert len(accepted(body, ADMIT, two, policy).attestations) == 3


def test_an_approval_of_another_root_or_gate_or_by_the_publisher_does_not_count() -> None:
    body = known()
    yes = gates.an_approval(body, ROOT)
    report = seen(gates.a_report(body, ROOT))
    for bad in (said(replace(yes, root=OTHER)), said(replace(yes, gate_id="another")), said(yes, "publisher")):
        assert refused(body, ADMIT, evidence(report, approvals=(bad,))) == ErrorCode.GATE_NOT_APPROVED


def test_a_revocation_is_lifted_only_by_a_later_full_report_and_a_fresh_approval() -> None:
    body = known()
    old = good(body)
    revoke = Revoke(root=ROOT, reason="bad-labels", report=None)
    invalid = accepted(body, revoke, evidence()).body
    assert refused(invalid, ADMIT, old) == ErrorCode.GATE_INVALID_ROOT
    fresh_report = seen(gates.a_report(invalid, ROOT))
    assert refused(invalid, ADMIT, evidence(fresh_report, approvals=old.approvals)) == ErrorCode.GATE_NOT_APPROVED
    fresh = evidence(fresh_report, approvals=(said(gates.an_approval(invalid, ROOT)),))
    lifted = accepted(invalid, ADMIT, fresh).body
    assert lifted.candidates[ROOT] == Candidate(
        state="ADMITTED", sequence=lifted.sequence, reason=None, admitted=lifted.sequence
    )


def against(body, *reports):  # type: ignore[no-untyped-def]
    """Code of what is known against handing out the root."""
    found = withheld(body, ROOT, evidence(*reports), POLICY)
    return None if found is None else found.code


def test_what_nobody_spoke_against_is_not_withheld() -> None:
    before = known()
    assert against(before) is None
    assert against(advanced(before), seen(gates.a_report(before, ROOT))) is None


def test_a_failed_report_withholds_a_root_until_enough_verifiers_pass_it_there() -> None:
    before = known()
    after = advanced(before)
    passed, found = seen(gates.a_report(before, ROOT)), seen(delta(before, after, hits=1))
    assert against(after, passed, found) == ErrorCode.PERMIT_HIT
    assert against(after, passed, found, seen(delta(before, after))) is None
    failed = seen(replace(gates.a_report(after, ROOT), verdict="FAILED", findings_total=1))
    assert against(after, failed) == ErrorCode.GATE_NOT_VERIFIED
    assert against(after, passed, failed) == ErrorCode.GATE_NOT_VERIFIED
    assert against(after, failed, seen(gates.a_report(after, ROOT))) is None


def test_what_nobody_of_the_verifiers_says_or_of_staged_entries_withholds_nothing() -> None:
    before = known()
    after = advanced(before)
    assert against(after, seen(delta(before, after, hits=1), "publisher")) is None
    assert against(before, seen(delta(before, after, hits=1))) is None


def test_a_root_that_left_the_state_is_withheld_as_before() -> None:
    before = known()
    after = advanced(before)
    gone = replace(after, candidates={})
    assert against(gone, seen(delta(before, after, hits=1))) == ErrorCode.PERMIT_HIT


def test_a_revoked_root_is_withheld_also_when_it_could_be_admitted_again() -> None:
    body = accepted(known(), Revoke(root=ROOT, reason="a.reason", report=None), good(known())).body
    assert against(body, seen(gates.a_report(body, ROOT))) == ErrorCode.GATE_INVALID_ROOT
