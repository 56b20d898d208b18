"""Rows put together and hashed, and rows hashed out of their pieces, with the same bounds and digests."""

from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.canonical import sha
from shardrel.errors import ErrorCode, InvalidInputError
from verifier.pieces import Fixed, Piece, Varying, constant, digests


@pytest.fixture(autouse=True, params=["together", "lanes"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine has no lanes, the second takes the first way too."""
    monkeypatch.setattr(sha, "_LANES", sha._Lanes(1 if request.param == "lanes" else 1 << 62))
    monkeypatch.setattr(sha, "_FEW_FOR_LANES", 0)
    sha.sha256_rows(pa.array([b"makes the lanes"]))


def test_a_batch_beyond_two_gib_is_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        digests(300_000, [constant(b"x" * 8000)])
    assert caught.value.code == ErrorCode.INPUT_INVALID


_NUMBERS = np.arange(40, dtype=np.uint8).reshape(10, 4)
_SOME = np.arange(10) % 3 > 0
_TEXTS: Any = pa.array([None if i == 4 else b"t" * i for i in range(12)], pa.binary())


@pytest.mark.parametrize(
    "pieces",
    [
        [constant(b"a"), constant(b"b"), constant(b"c")],
        [constant(b"a"), Fixed(_NUMBERS, None), constant(b"b" * 64), constant(b"c"), Fixed(_NUMBERS, None)],
        [constant(b"a", _SOME), Fixed(_NUMBERS, None), constant(b"b"), Fixed(_NUMBERS, _SOME)],
        [constant(b"a"), Fixed(_NUMBERS[:, ::2], None), Varying(_TEXTS.slice(1, 10)), constant(b"z")],
        [constant(b"a"), Varying(_TEXTS.slice(1, 10)), Varying(_TEXTS.slice(2, 10).fill_null(b""))],
        [constant(b""), Fixed(np.empty((10, 0), np.uint8), None)],
    ],
)
def test_every_row_is_its_pieces_one_after_another(pieces: list[Piece]) -> None:
    found, size = digests(10, pieces)
    rows = [b"".join(_value(piece, i) for piece in pieces) for i in range(10)]
    assert found.tobytes() == b"".join(sha256(row).digest() for row in rows)
    assert size == sum(map(len, rows))


def _value(piece: Piece, row: int) -> bytes:
    if isinstance(piece, Varying):
        return piece.values[row].as_py() or b""
    if piece.present is not None and not piece.present[row]:
        return b""
    return (piece.values if piece.values.ndim == 1 else piece.values[row]).tobytes()
