"""One rank's failure is every rank's failure."""

from shardrel.checkpoint.group import Group, on_coordinator, together
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode, NotFoundError
from tests.support.ranks import all_good, failures


def test_results_come_in_order_of_the_ranks() -> None:
    results = all_good(run_ranks(3, lambda group: together(group, lambda: bytes([group.rank]))))
    assert results == [[b"\0", b"\1", b"\2"]] * 3


def test_all_ranks_raise_the_code_of_the_lowest_that_failed_and_name_all_that_did() -> None:
    def part(group: Group) -> list[bytes]:
        def act() -> bytes:
            if group.rank == 1:
                raise NotFoundError(ErrorCode.GATE_NO_RUN, "no such run")
            if group.rank == 2:
                raise KeyError("text of a sample")
            return b""

        return together(group, act)

    results = failures(run_ranks(4, part))
    assert len(results) == 4
    assert {failure.code for failure in results} == {ErrorCode.GATE_NO_RUN}
    assert all(failure.context["ranks"] == ["1", "2"] for failure in results)


def test_the_facts_of_what_ended_one_rank_reach_all() -> None:
    facts = {"run": "first", "columns": ["a", "b"], "missing": None, "counts": {"x": 1}, "file": "no\udcffname"}

    def part(group: Group) -> list[bytes]:
        def act() -> bytes:
            if group.rank == 1:
                raise NotFoundError(ErrorCode.GATE_NO_RUN, "there is no run first", **facts)
            return b""

        return together(group, act)

    told = {**facts, "file": "no?name", "ranks": ["1"]}
    assert [failure.context for failure in failures(run_ranks(3, part))] == [told] * 3


def test_a_foreign_error_ends_all_ranks_without_its_text() -> None:
    def part(group: Group) -> list[bytes]:
        def act() -> bytes:
            if group.rank == 0:
                raise KeyError("text of a sample")
            return b""

        return together(group, act)

    for failure in failures(run_ranks(2, part)):
        assert failure.code == ErrorCode.RUN_RANK_FAILED
        assert "text of a sample" not in failure.message + str(failure.context)


def test_what_the_coordinator_finds_reaches_all_and_others_do_not_look() -> None:
    asked: list[int] = []

    def part(group: Group) -> bytes:
        def act() -> bytes:
            asked.append(group.rank)
            return b"found"

        return on_coordinator(group, act)

    assert all_good(run_ranks(3, part)) == [b"found"] * 3
    assert asked == [0]
