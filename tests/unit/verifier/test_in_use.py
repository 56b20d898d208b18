"""Roots that are in use, checked against staged entries before an advance takes them."""

import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.admit import admit
from shardrel.gate.approve import approve
from shardrel.gate.attestations import list_envelopes
from shardrel.gate.call import Call
from shardrel.gate.fence import advance_staged, stage
from shardrel.gate.revoke import revoke
from shardrel.gate.runs import renew, start
from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
from shardrel.records.gate import FenceKind
from shardrel.store.layout import attestation_key
from tests.support.publishing import NOW
from tests.support.release_builder import Built, a_release, a_world
from tests.unit.verifier.test_verify import benchmark, fence, first, gate_of, tombstone
from verifier.in_use import check_ahead, roots_in_use
from verifier.verify import VerifyResult, sign

ABSENT = "sha256:" + "0" * 64


def call(built: Built) -> Call:
    """The admin's."""
    return Call(signers=[built.made.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)


@pytest.fixture
def built() -> Built:
    """A release that an alias and a run use."""
    built = a_release()
    built.verified(built.root)
    approve(built.store, gate_of(built), built.root, built.made.keys["approver"], NOW)
    admit(built.store, built.made.dataset, built.root, "prod", call(built))
    start(built.store, built.made.dataset, "prod", call(built), run_id="run-1")
    return built


def staged(built: Built, kind: FenceKind, *entries: TombstoneEntry | BenchmarkEntry, again: bool = False) -> None:
    """Stage these entries."""
    stage(built.store, built.made.dataset, kind, list(entries), call(built), replace_staged=again)


def check(built: Built, *, ahead: bool = True) -> list[VerifyResult]:
    """Check the root at the fences, and beyond."""
    return check_ahead(built.store, built.root, gate_of(built), staged=ahead, world=a_world(built.made))


def take(built: Built, kind: FenceKind) -> str | None:
    """Advance over what is staged; the run's new permit."""
    advance_staged(built.store, built.made.dataset, kind, call(built))
    return renew(built.store, built.made.dataset, "run-1", call(built)).permit


def test_what_aliases_and_runs_use_is_known_and_what_was_revoked_is_not(built: Built) -> None:
    assert roots_in_use(gate_of(built).body) == {built.root: ("alias:prod", "run:run-1")}
    revoke(built.store, built.made.dataset, built.root, "bad-labels", call(built))
    assert roots_in_use(gate_of(built).body) == {}


@pytest.mark.parametrize("order", [("tombstones", "benchmarks"), ("benchmarks", "tombstones")])
def test_both_logs_may_advance_one_after_the_other_in_any_order(
    built: Built, order: tuple[FenceKind, FenceKind]
) -> None:
    staged(built, "tombstones", tombstone(1, sample_id="nobody"))
    staged(built, "benchmarks", benchmark(1, content_digest=ABSENT))
    reports = [done.report for done in check(built)]
    assert [(r.kind, r.verdict, r.tombstones.last, r.benchmarks.last) for r in reports] == [
        ("delta", "PASSED", 1, 0),
        ("delta", "PASSED", 0, 1),
    ]
    assert check(built) == []
    assert take(built, order[0]) != take(built, order[1])


def test_what_the_fences_took_already_is_checked_first(built: Built) -> None:
    fence(built, "tombstones", tombstone(1, sample_id="nobody"))
    staged(built, "tombstones", tombstone(2, sample_id="nobody else"))
    ranges = [(done.report.tombstones.first, done.report.tombstones.last) for done in check(built)]
    assert ranges == [(1, 1), (2, 2)]
    assert renew(built.store, built.made.dataset, "run-1", call(built)).permit
    assert take(built, "tombstones")


def test_without_staged_nothing_beyond_the_fences_is_looked_at(built: Built) -> None:
    staged(built, "tombstones", tombstone(1, sample_id=first(built, "_shardrel_sample_id")))
    assert check(built, ahead=False) == []


def test_a_hit_ahead_is_reported_and_stops_the_run_after_the_advance(built: Built) -> None:
    staged(built, "tombstones", tombstone(1, sample_id=first(built, "_shardrel_sample_id")))
    [found] = check(built)
    assert (found.report.verdict, found.report.counts.tombstone_hits) == ("FAILED", 1)
    assert renew(built.store, built.made.dataset, "run-1", call(built)).state == "open"
    with pytest.raises(RefusedError) as caught:
        take(built, "tombstones")
    assert caught.value.code == ErrorCode.PERMIT_HIT


@pytest.mark.parametrize("hit_first", [False, True])
def test_what_was_reported_over_replaced_entries_counts_for_nothing(built: Built, hit_first: bool) -> None:
    wanted = first(built, "_shardrel_sample_id")
    names = (wanted, "nobody") if hit_first else ("nobody", wanted)
    staged(built, "tombstones", tombstone(1, sample_id=names[0]))
    check(built)
    staged(built, "tombstones", tombstone(1, sample_id=names[1]), again=True)
    advance_staged(built.store, built.made.dataset, "tombstones", call(built))
    with pytest.raises(RefusedError) as caught:
        renew(built.store, built.made.dataset, "run-1", call(built))
    assert caught.value.code == ErrorCode.PERMIT_RECHECK
    [again] = check(built)
    assert again.report.verdict == ("PASSED" if hit_first else "FAILED")


def test_a_report_that_begins_elsewhere_is_not_gone_on_from(built: Built) -> None:
    staged(built, "tombstones", tombstone(1, sample_id="nobody"))
    staged(built, "tombstones", tombstone(1, sample_id="nobody"), tombstone(2, sample_id="nobody else"))
    [passed] = check(built)
    assert check(built) == []
    view, key = gate_of(built), built.made.keys["verifier"]
    honest = passed.report
    for name in list_envelopes(built.store, built.root):
        envelope = built.store.read(attestation_key(built.root, name), max_bytes=1 << 20)
        if name in (passed.report_digest, passed.summary_digest) and envelope is not None:
            built.store.delete(attestation_key(built.root, name), envelope.version)
    sign(built.store, replace(honest, tombstones=replace(honest.tombstones, after=ABSENT)), view, key)
    assert len(check(built)) == 1


def test_a_recheck_after_a_part_was_taken_begins_at_the_fence(built: Built) -> None:
    staged(built, "tombstones", tombstone(1, sample_id="nobody"))
    staged(built, "tombstones", tombstone(1, sample_id="nobody"), tombstone(2, sample_id="nobody else"))
    check(built)
    part = [tombstone(1, sample_id="nobody")]
    fence(built, "tombstones", *part)
    with pytest.raises(RefusedError):
        renew(built.store, built.made.dataset, "run-1", call(built))
    assert [done.report.tombstones.last for done in check(built)] == [1]
    assert renew(built.store, built.made.dataset, "run-1", call(built)).permit
    assert [done.report.tombstones.last for done in check(built)] == []
