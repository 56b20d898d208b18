"""Operation ids that are kept until their outcome is known."""

from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError, OutcomeUnknownError, RefusedError, UnavailableError
from shardrel.gate.pending import operation

SUBJECT = ["store", "dataset", "admit"]


def kept(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] for path in folder.glob("*")) if folder.exists() else []


def test_a_known_outcome_lets_the_id_go(tmp_path: Path) -> None:
    with operation(tmp_path, SUBJECT, None) as first:
        assert kept(tmp_path) == [first]
    with pytest.raises(RefusedError), operation(tmp_path, SUBJECT, None) as second:
        raise RefusedError(ErrorCode.GATE_NOT_APPROVED, "no")
    assert first != second
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknownError(ErrorCode.OUTCOME_SWAP, "unknown"),
        UnavailableError(ErrorCode.STORE_UNAVAILABLE, "away"),
        KeyboardInterrupt(),
    ],
    ids=["unknown", "unavailable", "interrupted"],
)
def test_anything_else_keeps_it_for_the_next_run_of_the_same_command(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), operation(tmp_path, SUBJECT, None) as first:
        raise error
    assert kept(tmp_path) == [first]
    with operation(tmp_path, [*SUBJECT, "other"], None) as other:
        assert other != first
    with operation(tmp_path, SUBJECT, None) as again:
        assert again == first
    assert kept(tmp_path) == []


@pytest.mark.parametrize("given", [None, "mine"])
@pytest.mark.parametrize("kind", [OutcomeUnknownError, UnavailableError])
def test_an_error_that_leaves_the_outcome_open_names_the_operation(
    tmp_path: Path, kind: type[OutcomeUnknownError | UnavailableError], given: str | None
) -> None:
    for folder in (tmp_path, None):
        with pytest.raises(kind) as caught, operation(folder, SUBJECT, given) as made:
            raise kind(ErrorCode.STORE_UNAVAILABLE, "away", status=500)
        assert caught.value.context == {"status": 500, "operationId": made}


def test_two_commands_at_once_are_two_operations(tmp_path: Path) -> None:
    with operation(tmp_path, SUBJECT, None) as one, operation(tmp_path, SUBJECT, None) as other:
        assert one != other
        assert kept(tmp_path) == sorted([one, other])
    assert kept(tmp_path) == []


def test_a_given_id_is_used_as_it_is_and_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "pending"
    with operation(folder, SUBJECT, "mine") as given:
        assert given == "mine"
    assert not folder.exists()
    with pytest.raises(InvalidInputError), operation(folder, SUBJECT, "../mine"):
        pass


def test_without_a_folder_nothing_is_kept() -> None:
    with operation(None, SUBJECT, None) as first, operation(None, SUBJECT, None) as other:
        assert first != other
