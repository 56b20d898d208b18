"""All interleavings of a few clients with all kinds of requests: the rule, exhaustively, within bounds.

Every kind of request is tried in every state, also with assumptions that are false there. One or two
clients have decided on an earlier state, with the evidence of then, and swap at any later time; they
may lose, decide again, get no answer and ask again. What must hold is in ``tests.support.gate_rules``.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from shardrel.gate import eligibility, judge
from shardrel.gate.facts import Accept
from shardrel.gate.transitions import admission, fences, publication, retention, runs
from shardrel.records.gate import Candidate
from shardrel.records.report import LogRange
from tests.support.explorer import Exploration, Explored, ViolationError
from tests.support.gate_moves import Bounds, key_of, roots_of, steps
from tests.support.gate_rules import check_state, check_step
from tests.support.gate_world import World, beginning

KINDS = {
    "begin-publication", "end-publication", "admit", "rollback", "advance", "revoke", "start", "renew", "end",
    "checkpoint", "set-policy", "verify", "recheck", "approve", "record", "stage", "advance-keeping", "retire", "end-sweep", "begin", "swap", "refusal", "answer",
}  # fmt: skip

SLOW_CLIENT = Bounds(roots=1, known=1, generations=1, benchmarks=0, policies=0, heads=0)
TWO_ROOTS = Bounds(slots=0, benchmarks=0, policies=0, heads=0)
CHECKPOINTS = Bounds(slots=0, roots=1, known=1, generations=1, benchmarks=0, policies=0, heads=2)
NEW_POLICY = Bounds(slots=0, roots=1, known=0, runs=0, benchmarks=0)
STAGED = replace(CHECKPOINTS, tombstones=2, heads=0, runs=0, revocations=0, staging=True)
RETIRING = Bounds(
    slots=0, roots=1, known=0, generations=1, tombstones=0, benchmarks=0, revocations=1, policies=0, heads=1,
    retirements=2,
)  # fmt: skip
SLOW_WRITER = replace(RETIRING, slots=1, revocations=0, heads=0, runs=0, retirements=1)
SMALL = {
    "slow-client": SLOW_CLIENT, "two-roots": TWO_ROOTS, "checkpoints": CHECKPOINTS, "new-policy": NEW_POLICY,
    "staged": STAGED, "retiring": RETIRING, "slow-writer": SLOW_WRITER,
}  # fmt: skip
LARGE = {
    "slow-client-two-fences": Bounds(roots=1, known=1, generations=1, policies=0, heads=0),
    "slow-client-new-policy": Bounds(roots=1, known=1, generations=1, benchmarks=0, heads=0),
    "slow-client-two-roots": Bounds(generations=1, benchmarks=0, policies=0, heads=0, runs=0, revocations=0),
    "slow-client-staged": replace(STAGED, slots=1, tombstones=1),
    "retiring-two-roots": replace(RETIRING, roots=2, known=1),
    "slow-client-retiring": replace(RETIRING, slots=1, retirements=1),
    "retiring-at-fences": replace(RETIRING, tombstones=2, staging=True, runs=0, revocations=0),
    "two-slow-clients": replace(SLOW_CLIENT, slots=2),
    "two-roots-two-fences": Bounds(slots=0, known=1, policies=0, heads=0),
    "two-aliases-two-runs": replace(CHECKPOINTS, aliases=2, runs=2, heads=1, tombstones=2),
}


def explore(bounds: Bounds) -> Explored:
    return Exploration[World](
        start=beginning(roots_of(bounds)[: bounds.known], bounds.slots),
        key=key_of,
        successors=lambda world: steps(world, bounds),
        check=check_state,
        check_step=check_step,
    ).run()


def shown(name: str, explored: Explored, capsys: pytest.CaptureFixture[str]) -> None:
    """Say how much was seen, in the report of a passing run too."""
    with capsys.disabled():
        print(f"\n  every interleaving, {name}: {explored}")


@pytest.fixture(scope="module")
def small() -> dict[str, Explored]:
    return {name: explore(bounds) for name, bounds in SMALL.items()}


def test_the_rules_hold_in_every_state_of_small_worlds(
    small: dict[str, Explored], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, found in small.items():
        shown(name, found, capsys)
        assert found.violation is None, found.path
    assert sum(found.states for found in small.values()) > 10_000


def test_every_kind_of_step_is_taken(small: dict[str, Explored]) -> None:
    assert {kind for found in small.values() for kind in found.steps} >= KINDS


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_the_rules_hold_in_every_state_of_a_larger_world(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = explore(LARGE[name])
    shown(name, found, capsys)
    assert found.violation is None, found.path


Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A rule that is wrong in one place, and the sentence that says so."""

    patch: Patch
    caught: str
    bounds: Bounds = SLOW_CLIENT


def _replacing(module: Any, name: str, wrong: Callable[..., Any]) -> Patch:
    """Put ``wrong(right, *arguments)`` in place of a function of the rule."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, **named: wrong(right, *given, **named))

    return patch


def _sets(module: Any, name: str, value: Any) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


def _generation_kept(right: Any, body: Any, request: Any, *rest: Any) -> Any:
    verdict = right(body, request, *rest)
    if not isinstance(verdict, Accept) or request.alias not in body.aliases:
        return verdict
    alias = changed(verdict.body.aliases[request.alias], generation=body.aliases[request.alias].generation)
    return replace(verdict, body=changed(verdict.body, aliases={**verdict.body.aliases, request.alias: alias}))


def _forgets_the_invalidation(right: Any, body: Any, root: str, *rest: Any, **named: Any) -> Any:
    candidate = body.candidates.get(root)
    if candidate is None:
        return right(body, root, *rest, **named)
    long_ago = changed(candidate, sequence=1)
    return right(changed(body, candidates={**body.candidates, root: long_ago}), root, *rest, **named)


def _always_eligible(right: Any, body: Any, root: str, *rest: Any, **named: Any) -> Any:
    return eligibility.Eligible(()) if root in body.candidates else right(body, root, *rest, **named)


def _permit_stays(right: Any, body: Any, *rest: Any) -> Any:
    verdict = right(body, *rest)
    return (
        replace(verdict, body=changed(verdict.body, permits=body.permits)) if isinstance(verdict, Accept) else verdict
    )


def _any_permit(right: Any, body: Any, request: Any, *rest: Any) -> Any:
    run = body.runs.get(request.run)
    if run is None:
        return right(body, request, *rest)
    freed = changed(body, runs={**body.runs, request.run: changed(run, permit=request.permit)})
    verdict = right(freed, request, *rest)
    if not isinstance(verdict, Accept):
        return verdict
    restored = changed(verdict.body.runs[request.run], permit=run.permit)
    return replace(verdict, body=changed(verdict.body, runs={**verdict.body.runs, request.run: restored}))


def _kept_evidence(right: Any, self: Any, view: Any) -> Any:
    return self._decide(view, self._evidence) if self._evidence is not None else right(self, view)


def _staged_again(right: Any, body: Any, request: Any, *rest: Any) -> Any:
    verdict = right(body, request, *rest)
    if not isinstance(verdict, Accept) or request.root is None:
        return verdict
    staged = Candidate(state="STAGED", sequence=body.sequence, reason=None)
    return replace(verdict, body=changed(verdict.body, candidates={**body.candidates, request.root: staged}))


def _by_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are held against watermarks, and not against the entries that they saw."""

    def moved(seen: Any, at: Any) -> Any:
        if seen.last == 0:
            return at
        return (seen.last, None) if seen.first - 1 == at[0] else None

    monkeypatch.setattr(eligibility, "_place", lambda fence: (fence.watermark, None))
    monkeypatch.setattr(eligibility, "_moved", moved)


def _reported_now(right: Any, body: Any, root: str, evidence: Any, *rest: Any, **named: Any) -> Any:
    """Every report is taken for one at the fences of now."""
    ranges = {
        name: LogRange(first=min(1, fence.watermark), last=fence.watermark, log=fence.log and fence.log.digest)
        for name, fence in (("tombstones", body.tombstones), ("benchmarks", body.benchmarks))
    }
    reports = tuple(replace(seen, report=changed(seen.report, kind="full", **ranges)) for seen in evidence.reports)
    return right(body, root, replace(evidence, reports=reports), *rest, **named)


def _follows_the_alias(right: Any, body: Any, request: Any, *rest: Any) -> Any:
    run = body.runs.get(request.run)
    if run is None or run.alias not in body.aliases:
        return right(body, request, *rest)
    now = body.aliases[run.alias]
    moved = changed(run, root=now.root, generation=now.generation)
    return right(changed(body, runs={**body.runs, request.run: moved}), request, *rest)


def _without_the_sweep(right: Any, body: Any, *rest: Any) -> Any:
    verdict = right(changed(body, retention=changed(body.retention, sweep=None)), *rest)
    return (
        replace(verdict, body=changed(verdict.body, retention=body.retention))
        if isinstance(verdict, Accept)
        else verdict
    )


def _closing(right: Any, body: Any, *rest: Any) -> Any:
    verdict = right(body, *rest)
    return replace(verdict, body=changed(verdict.body, permits={})) if isinstance(verdict, Accept) else verdict


MUTANTS = {
    "an advance closes nothing": Mutant(
        patch=_replacing(fences, "close_permits", lambda right, body, wanted, reason: (body, ())),
        caught="an advance left a permit open",
    ),
    "a revocation closes nothing": Mutant(
        patch=_replacing(admission, "close_permits", lambda right, body, wanted, reason: (body, ())),
        caught="a root that is INVALID has an open permit",
    ),
    "a fence takes what it is given": Mutant(
        patch=_sets(fences, "_unsound", lambda *given, **named: None),
        caught="entries that a fence has taken were replaced",
        bounds=replace(STAGED, staging=False),
    ),
    "a report counts at any fence": Mutant(
        patch=_replacing(admission, "eligible", _reported_now),
        caught="an alias moved to a root that is not verified at the fences",
    ),
    "a report of other entries counts": Mutant(
        patch=_by_watermarks, caught="an alias moved to a root that is not verified at the fences", bounds=STAGED
    ),
    "approvals are not counted": Mutant(
        patch=_sets(eligibility, "_approvals", lambda *given: ()), caught="an alias moved to a root that nobody approved"
    ),
    "old reports lift an invalidation": Mutant(
        patch=_replacing(admission, "eligible", _forgets_the_invalidation),
        caught="an alias moved to a root that is not verified at the fences",
    ),
    "a start asks for nothing": Mutant(
        patch=_replacing(runs, "eligible", _always_eligible),
        caught="a run has a permit for a root that is not verified at the fences",
    ),
    "a generation repeats": Mutant(
        patch=_replacing(admission, "admit", _generation_kept),
        caught="a generation repeats or is left out",
        bounds=replace(SLOW_CLIENT, generations=2, slots=0),
    ),
    "assumptions are not looked at": Mutant(
        patch=_sets(sys.modules["shardrel.gate.transitions.decide"], "false_assumption", lambda body, request: None),
        caught="a false assumption was accepted",
    ),
    "a permit outlives its run": Mutant(
        patch=_replacing(runs, "end", _permit_stays), caught="the permit of a run that ended is open"
    ),
    "a checkpoint needs no permit": Mutant(
        patch=_replacing(runs, "admit_checkpoint", _any_permit), caught="a checkpoint without a permit", bounds=CHECKPOINTS
    ),
    "a run id may be taken again": Mutant(
        patch=_replacing(judge.Judge, "verdict", _kept_evidence), caught="a run id started twice"
    ),
    "a publication stages an admitted root": Mutant(
        patch=_replacing(publication, "end", _staged_again),
        caught="an ADMITTED root is STAGED again",
        bounds=replace(NEW_POLICY, policies=0, tombstones=0, revocations=0),
    ),
    "keys of an old policy count": Mutant(
        patch=_sets(eligibility, "members", lambda role, key_ids: key_ids),
        caught="an alias moved to a root that is not verified at the fences",
        bounds=Bounds(roots=1, known=1, runs=0, benchmarks=0, tombstones=0, revocations=0),
    ),
    "what is in use is let go of": Mutant(
        patch=_sets(retention, "_pinned", lambda body, request: None),
        caught="what is in use was let go of",
        bounds=RETIRING,
    ),
    "a sweep keeps nobody out": Mutant(
        patch=_replacing(publication, "begin", _without_the_sweep),
        caught="a publication began while a sweep was open",
        bounds=RETIRING,
    ),
    "a collection forgets a revocation": Mutant(
        patch=_sets(retention, "_without", lambda body, roots: {r: c for r, c in body.candidates.items() if r not in roots}),
        caught="a revocation was forgotten",
        bounds=RETIRING,
    ),
    "staged entries close permits": Mutant(
        patch=_replacing(fences, "stage", _closing),
        caught="staged entries closed a permit",
        bounds=STAGED,
    ),
    "a renewal follows the alias": Mutant(
        patch=_replacing(runs, "renew", _follows_the_alias), caught="a run changed its root", bounds=TWO_ROOTS
    ),
    "who asks again does not look for its success": Mutant(
        patch=lambda monkeypatch: None,
        caught="one operation has two effects",
        bounds=replace(SLOW_CLIENT, asks_history=False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_wrong_rule_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    found = explore(mutant.bounds)
    assert found.violation == mutant.caught, found.path


def test_a_violation_comes_with_the_shortest_way_to_it() -> None:
    def check(state: int) -> None:
        if state == 7:
            raise ViolationError("seven")

    found = Exploration[int](
        start=0,
        key=lambda state: state,
        successors=lambda state: [("one", state + 1), ("three", state + 3)],
        check=check,
        check_step=lambda before, name, after: None,
    ).run()
    assert (found.violation, sorted(found.path)) == ("seven", ["one", "three", "three"])
