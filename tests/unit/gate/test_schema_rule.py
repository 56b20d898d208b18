"""Which schema changes a policy lets a release have."""

from msgspec.structs import replace

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.gate.schema_rule import judge
from shardrel.records.evolution import Change, ChangeKind, SchemaEvolution
from shardrel.records.gate import Candidate, GateBody
from shardrel.records.policy import Policy
from tests.support import gates
from tests.unit.gate.bodies import empty

OLD, NEW = digest_of(b"old"), digest_of(b"new")
ADMITTED = Candidate(state="ADMITTED", sequence=2, reason=None, admitted=2)
STAGED = Candidate(state="STAGED", sequence=3, reason=None)


def body(**candidates: Candidate) -> GateBody:
    return replace(empty(), candidates={digest_of(name.encode()): one for name, one in candidates.items()})


def policy(*allowed: ChangeKind) -> Policy:
    return replace(gates.a_policy(), schema_changes=allowed)


def report(*kinds: ChangeKind) -> SchemaEvolution:
    changes = tuple(Change(kind=kind, path=("a",), was=None, now=None) for kind in kinds)
    return SchemaEvolution(previous=OLD, previous_schema=OLD, record_schema=NEW, renames=(), changes=changes)


def code(*case: object) -> ErrorCode | None:
    refusal = judge(*case)  # type: ignore[arg-type]
    return None if refusal is None else refusal.code


def test_a_policy_that_names_no_kinds_asks_for_nothing() -> None:
    known = body(old=ADMITTED, new=STAGED)
    assert code(known, gates.a_policy(), NEW, None) is None
    assert code(known, gates.a_policy(), NEW, report("removed", "changed")) is None


def test_a_release_behind_an_admitted_one_has_to_be_compared_with_it() -> None:
    known = body(old=ADMITTED, new=STAGED)
    assert code(known, policy("added"), NEW, None) == ErrorCode.EVOLUTION_ABSENT
    assert code(known, policy("added"), None, None) == ErrorCode.EVOLUTION_ABSENT
    assert code(known, policy("added"), NEW, report("added")) is None
    assert code(known, policy("added"), NEW, report("added", "widened")) == ErrorCode.EVOLUTION_CHANGE
    assert code(known, policy(), NEW, report()) is None


def test_a_root_that_nobody_admitted_is_no_measure() -> None:
    known = body(old=STAGED, other=ADMITTED, new=STAGED)
    assert code(known, policy("added"), NEW, report("added")) == ErrorCode.EVOLUTION_PREVIOUS


def test_the_first_release_needs_no_previous_one() -> None:
    assert code(body(new=STAGED), policy("added"), NEW, None) is None


def test_what_was_admitted_is_not_judged_again() -> None:
    revoked = Candidate(state="INVALID", sequence=9, reason="x", admitted=2)
    assert code(body(old=ADMITTED, new=revoked), policy("added"), NEW, report("removed")) is None
