"""A run on several aliases by weight pins all their roots, and each of them can end its permit. The rule and the verbs."""

import pytest

from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate import admit, runs
from shardrel.gate.past import past_of
from shardrel.gate.retention import Wanted, keep
from shardrel.gate.view import read_gate
from shardrel.records.gate import GateBody
from shardrel.records.transition import Admit, EndRun, MixedAlias, RenewRun, Retire, Revoke, StartRun
from shardrel.store.memory import MemoryStore
from tests.support import gates
from tests.unit.gate.bodies import OTHER, ROOT, accepted, advanced, descriptor, evidence, good, known, refused, seen

MIX = (MixedAlias(alias="web", weight=700_000), MixedAlias(alias="code", weight=300_000))
START = StartRun(run="run-1", alias="web", inputs=MIX)


def two() -> GateBody:
    body = known(ROOT, OTHER)
    for alias, root in (("web", ROOT), ("code", OTHER)):
        body = accepted(body, Admit(alias=alias, root=root), good(body, root)).body
    return body


def both(body: GateBody) -> object:
    return evidence(seen(gates.a_report(body, ROOT)), seen(gates.a_report(body, OTHER)))


def test_all_roots_are_pinned_at_their_generations_with_their_weights() -> None:
    body = two()
    done = accepted(body, START, both(body))
    run = done.body.runs["run-1"]
    assert (run.alias, run.root, run.roots) == ("web", ROOT, (ROOT, OTHER))
    assert run.inputs == done.effects.inputs
    assert run.inputs is not None
    assert [(one.alias, one.root, one.generation, one.weight) for one in run.inputs] == [
        ("web", ROOT, 1, 700_000),
        ("code", OTHER, 1, 300_000),
    ]


def test_every_root_has_to_be_eligible() -> None:
    body = two()
    for root in (ROOT, OTHER):
        assert refused(body, START, good(body, root)) == ErrorCode.GATE_NOT_VERIFIED


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        (MIX[::-1], ErrorCode.INPUT_INVALID),
        ((MIX[0], MIX[0]), ErrorCode.INPUT_INVALID),
        ((MIX[0], MixedAlias(alias="none", weight=1)), ErrorCode.GATE_NO_ALIAS),
    ],
    ids=["another first", "twice", "unknown"],
)
def test_a_mix_names_known_aliases_once(inputs: tuple[MixedAlias, ...], code: ErrorCode) -> None:
    body = two()
    assert refused(body, StartRun(run="run-1", alias="web", inputs=inputs), both(body)) == code


def test_a_revocation_of_any_root_closes_the_permit() -> None:
    body = accepted(two(), START, both(two())).body
    for root in (ROOT, OTHER):
        after = accepted(body, Revoke(root=root, reason="bad-labels", report=None), evidence()).body
        assert after.runs["run-1"].permit is None


def test_a_renewal_asks_for_every_root() -> None:
    body = accepted(two(), START, both(two())).body
    later = advanced(body)
    assert later.runs["run-1"].permit is None
    renew = RenewRun(run="run-1")
    assert refused(later, renew, good(later, ROOT)) == ErrorCode.PERMIT_RECHECK
    assert accepted(later, renew, both(later)).effects.inputs == body.runs["run-1"].inputs


def test_no_root_of_it_is_retired() -> None:
    body = accepted(two(), START, both(two())).body
    body = accepted(body, Admit(alias="code", root=ROOT), good(body, ROOT)).body
    request = Retire(
        after=body.sequence, plan=descriptor("plan"), objects=1, roots=(OTHER,), publications=(), runs=(), owner="gc"
    )
    assert refused(body, request, evidence()) == ErrorCode.RETENTION_PINNED
    ended = accepted(body, EndRun(run="run-1", outcome="finished"), evidence())
    assert ended.effects.inputs == body.runs["run-1"].inputs


def test_a_run_that_is_started_shows_its_inputs_and_keeps_their_roots() -> None:
    store = MemoryStore()
    gates.new_gate(store)
    web, code = gates.a_root("web"), gates.a_root("code")
    for alias, root in (("web", web), ("code", code)):
        gates.stage(store, root)
        gates.attest(store, root)
        admit.admit(store, gates.DATASET, root, alias, gates.call("admin"))
    started = runs.start(store, gates.DATASET, "web", gates.call("admin"), run_id="run-1", inputs=MIX)
    assert started.record.inputs is not None
    assert [(one.root, one.weight) for one in started.record.inputs] == [(web, 700_000), (code, 300_000)]
    again = runs.start(
        store, gates.DATASET, "web", gates.call("admin", operation_id="op"), run_id="run-2", inputs=MIX[:1]
    )
    assert again.record.inputs == started.record.inputs[:1]
    assert runs.show(store, gates.DATASET, "run-1").record == started.record

    view = read_gate(store, gates.DATASET)
    kept = keep(view.body, past_of([]), Wanted(generations=0, abandon=frozenset(), hits=frozenset()))
    assert "run:run-1" in kept.roots[web]
    assert "run:run-1" in kept.roots[code]

    with pytest.raises(RefusedError) as caught:
        runs.start(store, gates.DATASET, "web", gates.call("admin"), run_id="run-1", inputs=MIX)
    assert caught.value.code == ErrorCode.GATE_RUN_EXISTS
