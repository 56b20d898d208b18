"""The transitions of retention: what they need, what they close, and what waits for them. Pure rule."""

import dataclasses

import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.records.gate import Alias, GateBody, Publication, Retention, Sweep
from shardrel.records.transition import AdmitCheckpoint, BeginPublication, EndPublication, EndSweep, Retire, StartRun
from tests.support import gates
from tests.unit.gate.bodies import OTHER, ROOT, accepted, descriptor, evidence, good, known, refused


def retire(body: GateBody, **changes: object) -> Retire:
    """A retirement of one root with three objects."""
    request = Retire(
        after=body.sequence,
        plan=descriptor("plan"),
        objects=3,
        roots=(ROOT,),
        publications=(),
        runs=(),
        owner="gc-1",
    )
    return replace(request, **changes)


def with_publication(body: GateBody) -> GateBody:
    return replace(body, publications={"p": Publication(snapshot=gates.SNAPSHOT, sequence=1)})


def test_what_is_retired_leaves_and_the_boundary_moves() -> None:
    body = known(ROOT, OTHER)
    after = accepted(body, retire(body), evidence()).body
    assert set(after.candidates) == {OTHER}
    assert after.retention == Retention(boundary=after.sequence, plan=descriptor("plan"), sweep=Sweep(owner="gc-1"))
    empty_plan = accepted(body, retire(body, objects=0), evidence()).body
    assert empty_plan.retention.sweep is None


def test_only_a_governor_retires() -> None:
    body = known()
    assert refused(body, retire(body), evidence(signer="publisher")) == ErrorCode.TRUST_ROLE


def test_a_plan_of_another_state_is_refused() -> None:
    body = known()
    assert refused(body, retire(body, after=body.sequence - 1), evidence()) == ErrorCode.GATE_ASSUMPTION


@pytest.mark.parametrize("pin", ["alias", "ended", "unknown"])
def test_what_is_pinned_is_not_retired(pin: str) -> None:
    body = known(ROOT, OTHER)
    changes: dict[str, object] = {}
    if pin == "alias":
        body = replace(body, aliases={"prod": Alias(generation=1, root=ROOT, sequence=1)})
    elif pin == "unknown":
        changes = {"roots": (gates.a_root("nobody"),)}
    else:
        body = replace(body, aliases={"prod": Alias(generation=1, root=OTHER, sequence=1)})
        body = accepted(body, StartRun(run="run-1", alias="prod"), good(body, OTHER)).body
        changes = {"runs": ("run-1",)}
    assert refused(body, retire(body, **changes), evidence()) == ErrorCode.RETENTION_PINNED


def test_a_publication_is_given_up_with_its_pin() -> None:
    body = with_publication(known())
    after = accepted(body, retire(body, publications=("p",)), evidence()).body
    assert after.publications == {}
    assert refused(body, retire(body, publications=("q",)), evidence()) == ErrorCode.RETENTION_PINNED


def test_a_sweep_keeps_publications_and_other_sweeps_out_until_it_ends() -> None:
    body = known(ROOT, OTHER)
    during = accepted(body, retire(body), evidence()).body
    begin = BeginPublication(publication="p", snapshot=gates.SNAPSHOT)
    assert refused(during, begin, evidence()) == ErrorCode.RETENTION_SWEEP
    assert refused(during, retire(during, roots=()), evidence()) == ErrorCode.RETENTION_SWEEP
    boundary = during.retention.boundary
    assert refused(during, EndSweep(boundary=boundary + 1), evidence()) == ErrorCode.GATE_ASSUMPTION
    after = accepted(during, EndSweep(boundary=boundary), evidence()).body
    assert after.retention == Retention(boundary=boundary, plan=descriptor("plan"))
    assert accepted(after, begin, evidence())
    assert refused(after, EndSweep(boundary=boundary), evidence()) == ErrorCode.GATE_ASSUMPTION


def test_publications_and_runs_go_on_while_objects_are_deleted_and_a_run_starts() -> None:
    body = with_publication(replace(known(ROOT, OTHER), aliases={"prod": Alias(generation=1, root=OTHER, sequence=1)}))
    during = accepted(body, retire(body), evidence()).body
    assert during.publications == body.publications
    assert accepted(during, StartRun(run="run-1", alias="prod"), good(during, OTHER))


def test_only_a_plan_that_condemns_moves_the_boundary() -> None:
    body = known(ROOT, OTHER)
    first = accepted(body, retire(body), evidence()).body
    ended = accepted(first, EndSweep(boundary=first.retention.boundary), evidence()).body
    nothing = accepted(ended, retire(ended, roots=(), objects=0, plan=descriptor("later")), evidence()).body
    assert nothing.retention == Retention(boundary=first.sequence, plan=descriptor("later"))


@pytest.mark.parametrize("cleared", [None, 0, 1])
def test_nobody_names_what_may_have_been_condemned_since_it_was_written(cleared: int | None) -> None:
    body = with_publication(known(ROOT, OTHER))
    body = replace(body, aliases={"prod": Alias(generation=1, root=OTHER, sequence=1)})
    body = accepted(body, StartRun(run="run-1", alias="prod"), good(body, OTHER)).body
    during = accepted(body, retire(body), evidence()).body
    new = gates.a_root("new")
    requests = (
        EndPublication(publication="p", root=new),
        AdmitCheckpoint(
            run="run-1", generation=0, commit=new, parent=None, step=1, permit=body.runs["run-1"].permit or ""
        ),
    )
    for request in requests:
        given = dataclasses.replace(evidence(), cleared=cleared)
        assert refused(during, request, given) == ErrorCode.RETENTION_SWEPT
        looked = dataclasses.replace(evidence(), cleared=during.retention.boundary)
        assert accepted(during, request, looked)
    # Whoever gives up names nothing.
    assert accepted(during, EndPublication(publication="p", root=None), dataclasses.replace(evidence(), cleared=None))


def test_a_publication_ends_only_under_the_pin_that_it_began_with() -> None:
    begin = BeginPublication(publication="p", snapshot=gates.SNAPSHOT)
    first = accepted(known(), begin, evidence()).body
    dropped = accepted(first, retire(first, roots=(), publications=("p",), objects=0), evidence()).body
    second = accepted(dropped, begin, evidence()).body
    late = EndPublication(publication="p", root=OTHER, pin=first.publications["p"].sequence)
    assert refused(second, late, evidence()) == ErrorCode.GATE_NO_PUBLICATION
    assert accepted(second, replace(late, pin=second.publications["p"].sequence), evidence())
