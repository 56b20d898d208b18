"""A busy gate: several aliases, hundreds of runs, and what closes and opens their permits. Pure rule."""

from functools import cache

from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept
from shardrel.gate.transitions import decide
from shardrel.records.gate import Fence, GateBody
from shardrel.records.transition import Admit, RenewRun, Revoke, StageFence, StartRun
from tests.support import gates
from tests.unit.gate.bodies import (
    OTHER,
    POLICY,
    ROOT,
    accepted,
    advance_evidence,
    advance_request,
    descriptor,
    evidence,
    good,
    known,
    refused,
    said,
    seen,
)

RUNS = 300
ALIASES = {"prod": ROOT, "canary": ROOT, "dev": OTHER}


@cache
def busy() -> GateBody:
    """Three aliases over two roots, and a hundred runs on each."""
    body = known(ROOT, OTHER)
    for alias, root in ALIASES.items():
        body = accepted(body, Admit(alias=alias, root=root), good(body, root)).body
    for number in range(RUNS):
        alias = sorted(ALIASES)[number % 3]
        body = accepted(body, StartRun(run=f"run-{number}", alias=alias), good(body, ALIASES[alias])).body
    return body


def staged(body: GateBody) -> GateBody:
    """Two tombstones behind the fence."""
    log = descriptor("staged")
    request = StageFence(fence="tombstones", watermark=0, first=1, last=2, previous=None, log=log, staged=None)
    facts = replace_log(advance_evidence(advance_request(body, by=2)), log)
    return accepted(body, request, facts).body


def replace_log(given, log):  # type: ignore[no-untyped-def]
    from dataclasses import replace as with_

    return with_(given, log=with_(given.log, log=log))


def test_every_permit_closes_at_once_and_every_checked_run_opens_its_own_again() -> None:
    body = staged(busy())
    assert len(body.permits) == RUNS + len(ALIASES)
    end = Fence(watermark=2, log=descriptor("staged"))
    ranges = gates.Ranges(tombstones=gates.log_range(1, 2, end), benchmarks=gates.log_range(0, 0, None))
    fulls = {root: seen(gates.a_report(body, root)) for root in (ROOT, OTHER)}
    ahead = seen(gates.a_report(body, ROOT, ranges=ranges, kind="delta"))

    request = replace(advance_request(body, by=2), log=descriptor("staged"), staged=descriptor("staged"))
    moved = accepted(body, request, replace_log(advance_evidence(request), descriptor("staged")))
    assert set(moved.effects.closed_permits) == set(body.permits)
    after = moved.body
    assert after.permits == {}
    assert {run.closed.by for run in after.runs.values() if run.closed} == {"tombstones"}

    for name, run in after.runs.items():
        given = evidence(fulls[run.root], ahead)
        verdict = decide(after, RenewRun(run=name), given, POLICY)
        if run.root == ROOT:
            assert isinstance(verdict, Accept), verdict
            assert list(verdict.body.permits) == [verdict.effects.opened_permit]
        else:
            assert refused(after, RenewRun(run=name), given) == ErrorCode.PERMIT_RECHECK


def test_a_revocation_closes_the_permits_of_its_root_alone() -> None:
    body = busy()
    done = accepted(body, Revoke(root=ROOT, reason="bad-labels", report=None), evidence())
    others = {name for name, permit in body.permits.items() if permit.root == OTHER}
    assert set(done.body.permits) == others
    assert set(done.effects.closed_permits) == set(body.permits) - others
    given = evidence(seen(gates.a_report(body, ROOT)), approvals=(said(gates.an_approval(body, ROOT)),))
    on_root = next(name for name, run in body.runs.items() if run.root == ROOT)
    assert refused(done.body, RenewRun(run=on_root), given) == ErrorCode.GATE_INVALID_ROOT
    assert refused(done.body, StartRun(run="late", alias="canary"), given) == ErrorCode.GATE_INVALID_ROOT
    assert accepted(done.body, StartRun(run="late", alias="dev"), good(done.body, OTHER))


def test_a_move_of_one_alias_leaves_the_others_and_all_runs_alone() -> None:
    body = busy()
    after = accepted(body, Admit(alias="prod", root=OTHER), good(body, OTHER)).body
    assert after.runs == body.runs
    assert {name: alias for name, alias in after.aliases.items() if name != "prod"} == {
        name: alias for name, alias in body.aliases.items() if name != "prod"
    }


def test_the_state_of_a_busy_gate_stays_small() -> None:
    assert len(json.encode(busy())) < RUNS * 1_000
