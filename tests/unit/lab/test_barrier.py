"""Barriers by name, and where in a transcript they are."""

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.barrier import NAMED, Event, admitted, installed, read_barrier


def transcript(*lines: str) -> list[Event]:
    words = [line.split() for line in lines]
    return [
        Event(number=number, step=step, operation=operation, place=place)
        for number, (step, operation, place) in enumerate(words)
    ]


SERVER = transcript(
    "begin read gate-state",
    "request get_object gate-state",
    "answer get_object gate-state",
    "end read gate-state",
    "begin read commit",
    "request get_object commit",
    "refusal get_object commit",
    "end read commit",
    "begin create commit",
    "request put_object commit",
    "answer put_object commit",
    "end create commit",
    "begin swap gate-state",
    "request put_object gate-state",
    "answer put_object gate-state",
)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("store-2-before", 4),
        ("store-2-after", 7),
        ("request-1-before", 1),
        ("request-2-after", 6),
        ("request-3-before", 9),
        ("request-3-after", 10),
        ("commit-before-put", 9),
        ("commit-after-put", 10),
        ("gate-before-put", 13),
        ("gate-after-put", 14),
    ],
)
def test_a_barrier_is_one_event(name: str, at: int) -> None:
    barrier = read_barrier(name)
    found = [number for number in range(len(SERVER)) if barrier.is_at(SERVER[: number + 1])]
    assert found[0] == at
    assert (installed(SERVER[: at + 1]), admitted(SERVER[: at + 1])) == (at >= 10, at >= 14)


def test_some_are_of_a_server_some_of_a_folder_and_some_of_both() -> None:
    of = {name: read_barrier(name).of_a_server for name in [*NAMED, "store-1-after", "request-1-after"]}
    assert {name for name, server in of.items() if server} == {
        name for name in of if "put" in name or "request" in name
    }
    assert [name for name, server in of.items() if server is None] == ["store-1-after"]


@pytest.mark.parametrize("name", ["", "request-0-before", "request-1", "put-1-after", "commit-after-put-1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_barrier(name)
    assert refused.value.code == ErrorCode.INPUT_INVALID
