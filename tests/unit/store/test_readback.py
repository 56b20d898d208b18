import pytest

from shardrel.store.port import AlreadyPresent, Conflict, Lost, Token, Unknown, Written
from shardrel.store.readback import ABSENT, AskAgain, Seen, Unreadable, after_create, after_swap

OWN = "our-write"
EXPECTED = Token("before")


def seen(
    *, write_id: str | None = "their-write", replaced: str | None = None, token: str = "after", same_bytes: bool = False
) -> Seen:
    return Seen(version="v", token=Token(token), write_id=write_id, replaced=replaced, same_bytes=same_bytes)


@pytest.mark.parametrize(
    ("there", "outcome"),
    [
        (seen(write_id=OWN), Written("v", Token("after"))),
        (seen(write_id=OWN, same_bytes=True), Written("v", Token("after"))),
        (seen(same_bytes=True), AlreadyPresent("v")),
        (seen(write_id=None, same_bytes=True), AlreadyPresent("v")),
        (seen(), Conflict()),
        (seen(write_id=None), Conflict()),
        (None, AskAgain()),
    ],
)
def test_create_is_judged_by_what_the_key_holds(there: Seen | None, outcome: object) -> None:
    assert after_create(there, OWN) == outcome


def test_create_that_cannot_be_read_back_is_unknown() -> None:
    assert isinstance(after_create(Unreadable(), OWN), Unknown)


@pytest.mark.parametrize("doubt", [False, True])
def test_swap_whose_write_id_is_there_was_written(doubt: bool) -> None:
    assert after_swap(seen(write_id=OWN), OWN, EXPECTED, doubt=doubt) == Written("v", Token("after"))


@pytest.mark.parametrize("doubt", [False, True])
def test_swap_is_asked_again_while_the_old_bytes_stand(doubt: bool) -> None:
    assert after_swap(seen(token=EXPECTED), OWN, EXPECTED, doubt=doubt) == AskAgain()


@pytest.mark.parametrize("write_id", ["their-write", None])
def test_swap_that_was_refused_and_never_in_doubt_is_lost(write_id: str | None) -> None:
    assert after_swap(seen(write_id=write_id), OWN, EXPECTED, doubt=False) == Lost()


def test_swap_in_doubt_is_lost_when_another_replaced_the_same_bytes() -> None:
    assert after_swap(seen(replaced=EXPECTED), OWN, EXPECTED, doubt=True) == Lost()
    assert after_swap(seen(replaced=ABSENT), OWN, None, doubt=True) == Lost()


@pytest.mark.parametrize("there", [seen(replaced="later"), seen(replaced=None), seen(write_id=None)])
@pytest.mark.parametrize("expected", [EXPECTED, None])
def test_swap_in_doubt_is_unknown_when_it_may_have_been_superseded(there: Seen, expected: Token | None) -> None:
    assert isinstance(after_swap(there, OWN, expected, doubt=True), Unknown)


@pytest.mark.parametrize("expected", [EXPECTED, None])
def test_swap_of_an_absent_key_is_lost_only_without_doubt(expected: Token | None) -> None:
    assert after_swap(None, OWN, expected, doubt=False) == Lost()
    assert not isinstance(after_swap(None, OWN, expected, doubt=True), Lost)


def test_first_swap_in_doubt_is_asked_again_while_the_key_is_absent() -> None:
    assert after_swap(None, OWN, None, doubt=True) == AskAgain()


@pytest.mark.parametrize("doubt", [False, True])
def test_swap_that_cannot_be_read_back_is_unknown(doubt: bool) -> None:
    assert isinstance(after_swap(Unreadable(), OWN, EXPECTED, doubt=doubt), Unknown)
