"""An operation id lives exactly as long as its outcome is unknown."""

from pathlib import Path

import pytest

from shardrel.cli.pending import operation
from shardrel.cli.settings import Settings
from shardrel.errors import ConflictError, ErrorCode, InvalidInputError, OutcomeUnknownError, RefusedError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(keys=tmp_path / "keys")


def begin(settings: Settings, *what: str) -> str:
    with operation(settings, None, *what) as identity:
        return identity


def fail(settings: Settings, error: Exception, *what: str) -> str:
    seen = ""
    with pytest.raises(type(error)), operation(settings, None, *what) as identity:
        seen = identity
        raise error
    return seen


def test_a_known_outcome_ends_an_operation(settings: Settings) -> None:
    assert begin(settings, "admit", "r") != begin(settings, "admit", "r")


def test_an_unknown_outcome_is_taken_up_by_the_same_call_and_by_no_other(settings: Settings) -> None:
    unknown = OutcomeUnknownError(ErrorCode.OUTCOME_SWAP, "run it again")
    identity = fail(settings, unknown, "admit", "r")
    assert unknown.context["operation"] == identity
    assert begin(settings, "admit", "other") != identity
    assert begin(settings, "admit", "r") == identity
    assert begin(settings, "admit", "r") != identity


def test_a_crash_keeps_the_operation(settings: Settings) -> None:
    assert fail(settings, ZeroDivisionError(), "admit", "r") == begin(settings, "admit", "r")


@pytest.mark.parametrize(
    "answer", [RefusedError(ErrorCode.GATE_NOT_APPROVED, "no"), ConflictError(ErrorCode.GATE_GENERATION, "moved")]
)
def test_a_refusal_is_an_answer(settings: Settings, answer: Exception) -> None:
    assert fail(settings, answer, "admit", "r") != begin(settings, "admit", "r")


def test_gates_and_stores_do_not_share_operations(tmp_path: Path) -> None:
    here = Settings(keys=tmp_path, dataset="a")
    identity = fail(here, ZeroDivisionError(), "admit", "r")
    assert begin(Settings(keys=tmp_path, dataset="b"), "admit", "r") != identity
    assert begin(Settings(keys=tmp_path, dataset="a", store="elsewhere"), "admit", "r") != identity
    assert begin(here, "admit", "r") == identity


def test_a_given_id_is_used_as_it_is_and_checked(settings: Settings) -> None:
    with operation(settings, "mine", "admit") as identity:
        assert identity == "mine"
    with pytest.raises(InvalidInputError) as caught, operation(settings, "../x", "admit"):
        raise AssertionError
    assert caught.value.code is ErrorCode.INPUT_INVALID
