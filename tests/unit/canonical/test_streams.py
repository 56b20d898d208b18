"""Two long hashes at once against hashlib, and the reasons for which there are none."""

import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import jit, streams
from shardrel.canonical.streams import Message, Streams, compiled
from tests.support.guarded import run_guarded

_CPU = Path("/proc/cpuinfo")


@pytest.fixture(scope="module")
def made() -> Streams | None:
    """The functions of this machine; without SHA instructions there are none to be tested, and that is what is tested."""
    found = compiled()
    flags = set(_CPU.read_text(encoding="ascii", errors="replace").split()) if _CPU.exists() else set()
    assert (found is not None) == ({"sha_ni", "sse4_1"} <= flags)
    return found


def expected(messages: list[Message]) -> list[bytes]:
    return [sha256(head + bytes(body)).digest() for head, body in messages]


@pytest.mark.parametrize("head", [0, 1, 24, 63, 64, 65, 200])
def test_every_length_beside_every_kind_of_other(made: Streams | None, head: int) -> None:
    rng = np.random.default_rng(head)
    for size in range(260) if made else ():
        messages = [(rng.bytes(head), rng.bytes(size)), (rng.bytes(17), rng.bytes(int(rng.integers(0, 700))))]
        assert made.digests(messages) == expected(messages)
        assert made.digests(messages[::-1]) == expected(messages[::-1])


@settings(deadline=None, max_examples=200)
@given(sizes=st.lists(st.tuples(st.integers(0, 130), st.integers(0, 2000)), max_size=7), seed=st.integers(0, 1 << 32))
def test_any_number_of_messages(made: Streams | None, sizes: list[tuple[int, int]], seed: int) -> None:
    """One that ends makes room for the next, whatever is left of the other."""
    rng = np.random.default_rng(seed)
    messages = [(rng.bytes(head), memoryview(rng.bytes(body))) for head, body in sizes]
    assert made is None or made.digests(messages) == expected(messages)


def test_messages_of_some_megabytes_in_whatever_holds_bytes(made: Streams | None) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 400_003)
    rows = numbers.view(np.uint8)[: 32 * 100_000].reshape(-1, 32)
    messages = [(b"a", numbers.data.cast("B")), (b"", bytes(5_000_001)), (b"rows", rows.reshape(-1).data)]
    assert made is None or made.digests(messages) == expected(messages)


_GUARDED = """
from shardrel.canonical.streams import compiled
made = compiled()
for size in range(300):
    messages = [(b"head", middle[:size]), (b"", middle[len(middle) - size :])]
    wanted = [sha256(head + body.tobytes()).digest() for head, body in messages]
    assert made is None or made.digests(messages) == wanted
print("done")
"""


def test_no_byte_beside_the_data_is_read() -> None:
    done = run_guarded(_GUARDED)
    assert (done.returncode, done.stdout.split()) == (0, ["done"])


def test_another_processor_gives_none() -> None:
    llvm = SimpleNamespace(get_host_cpu_features=lambda: {"sha": False, "sse4.1": True})
    assert jit._engine(llvm, streams._text) is None


def test_without_the_package_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert compiled() is None


@pytest.mark.parametrize("constant", [0, 17, 63])
def test_functions_that_compute_something_else_are_not_used(monkeypatch: pytest.MonkeyPatch, constant: int) -> None:
    wrong = list(streams.streams_ir.CONSTANTS)
    wrong[constant] ^= 1
    monkeypatch.setattr(streams.streams_ir, "CONSTANTS", wrong)
    assert compiled() is None
