"""Encoding into memory that is there from the start, and what happens when it is too small."""

from typing import Any

import pytest

from publisher.sink import encoded


@pytest.mark.parametrize("room", [0, 1, 9, 10, 11, 1 << 20, 1 << 60])
def test_what_is_written_does_not_depend_on_the_room(room: int) -> None:
    def write(sink: Any) -> None:
        sink.write(b"01234")
        sink.write(b"56789")

    assert encoded(write, room).to_pybytes() == b"0123456789"


def test_an_error_of_the_writer_is_no_lack_of_room() -> None:
    def write(sink: Any) -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        encoded(write, 10)
