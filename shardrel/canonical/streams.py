"""Long byte strings hashed two at a time, by the functions of ``streams_ir``, where the processor has SHA instructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from shardrel.canonical import streams_ir
from shardrel.canonical.jit import engine, function
from shardrel.canonical.lanes_ir import FIRST

Message = tuple[bytes, Any]
"""A few bytes, and behind them very many: whatever holds contiguous bytes."""

_NEEDED = ("sha", "sse4.1")
_BLOCK = 64
_AT_ONCE = 2


@dataclass(slots=True)
class _Stream:
    """A message on its way.

    Attributes:
        state: Shape (8,), uint32, as ``streams_ir`` keeps it.
        data: Whole blocks that are still to come.
        rest: What is left behind them.
        size: Bytes of the message.
    """

    state: npt.NDArray[np.uint32]
    data: npt.NDArray[np.uint8]
    rest: bytes
    size: int

    @property
    def blocks(self) -> int:
        return len(self.data) // _BLOCK


class Streams:
    """Hashes long byte strings; lets other threads run meanwhile.

    Args:
        made: Keeps the code of both functions.
    """

    def __init__(self, made: Any) -> None:
        self._made = made
        self._one = function(made, streams_ir.ONE, "pp#")
        self._two = function(made, streams_ir.TWO, "ppp#")

    def digests(self, messages: Sequence[Message]) -> list[bytes]:
        """SHA-256 of each message; as long as there are two, two are on their way."""
        streams = [self._begun(head, np.frombuffer(body, np.uint8)) for head, body in messages]
        waiting, active = streams[::-1], list[_Stream]()
        while waiting or active:
            while waiting and len(active) < _AT_ONCE:
                active.append(waiting.pop())
            self._advance(active)
            active = [stream for stream in active if stream.blocks]
        return [self._ended(stream) for stream in streams]

    def _begun(self, head: bytes, body: npt.NDArray[np.uint8]) -> _Stream:
        """The blocks that have bytes of the head are done at once, so that the others lie where they are."""
        cut = min(-len(head) % _BLOCK, len(body))
        first = head + body[:cut].tobytes()
        state = np.empty(len(FIRST), np.uint32)
        state[list(streams_ir.PLACES)] = FIRST
        done = self._blocks(state, first) * _BLOCK
        end = cut + (len(body) - cut) // _BLOCK * _BLOCK
        rest = first[done:] + body[end:].tobytes()
        return _Stream(state=state, data=body[cut:end], rest=rest, size=len(head) + len(body))

    def _advance(self, active: Sequence[_Stream]) -> None:
        """As many blocks of each as the shortest has."""
        blocks = min(stream.blocks for stream in active)
        states = np.concatenate([stream.state for stream in active])
        do = self._one if len(active) == 1 else self._two
        do(states.ctypes.data, *(stream.data.ctypes.data for stream in active), blocks)
        for stream, state in zip(active, np.split(states, len(active)), strict=True):
            stream.state, stream.data = state, stream.data[blocks * _BLOCK :]

    def _ended(self, stream: _Stream) -> bytes:
        zeros = -(len(stream.rest) + 9) % _BLOCK
        state = np.ascontiguousarray(stream.state)
        self._blocks(state, stream.rest + b"\x80" + bytes(zeros) + (8 * stream.size).to_bytes(8, "big"))
        return state[list(streams_ir.PLACES)].astype(">u4").tobytes()

    def _blocks(self, state: npt.NDArray[np.uint32], data: bytes) -> int:
        """Take the whole blocks of some bytes into a state; how many."""
        view = np.frombuffer(data, np.uint8)
        self._one(state.ctypes.data, view.ctypes.data, len(view) // _BLOCK)
        return len(view) // _BLOCK


def compiled() -> Streams | None:
    """Make the functions: a hundredth of a second. ``None`` where they cannot be had, or compute something else."""
    made = engine(_text)
    streams = None if made is None else Streams(made)
    return streams if streams and _right(streams) else None


def _text(features: Mapping[str, bool]) -> str | None:
    return streams_ir.functions() if all(features.get(name) for name in _NEEDED) else None


def _right(streams: Streams) -> bool:
    """Compare with hashlib: every length up to three blocks, with heads of some lengths."""
    data = (np.arange(4 * _BLOCK, dtype=np.int64) * 197 >> 3).astype(np.uint8)
    heads = [data[:size].tobytes() for size in (0, 1, 40, 63, 64, 100)]
    messages = [(head, data[: size * 37 % 193]) for head in heads for size in range(3 * _BLOCK + 1)]
    wanted = [sha256(head + body.tobytes()).digest() for head, body in messages]
    return streams.digests(messages) == wanted
