"""No byte of a proof's file can change, and none can be missing or too many."""

import pytest

from shardrel.canonical import json
from shardrel.errors import ShardrelError
from tests.support import plain_check
from tests.support.proofs import a_manifest, root_of, slow_proof, sorted_rows
from verifier.proof import check_proof

ROWS = sorted_rows([(f"é{n // 2}", "file", "1", bytes([n]) * 32, "train") for n in range(11)])
MANIFEST = a_manifest(ROWS)
ROOT = root_of(MANIFEST)
PROOFS = {name: json.encode(slow_proof(ROWS, name, MANIFEST)) for name in ("é3", "é33", "z")}


def refused(data: bytes) -> bool:
    try:
        check_proof(data, ROOT)
    except ShardrelError as err:
        return err.code.split(".")[0] in {"format", "proof"}
    return False


@pytest.mark.parametrize("name", PROOFS)
def test_the_proofs_hold_as_they_are(name: str) -> None:
    assert check_proof(PROOFS[name], ROOT).sample_id == name
    assert plain_check.holds(PROOFS[name], ROOT)


@pytest.mark.parametrize("name", PROOFS)
def test_a_flipped_bit_in_any_byte_is_refused(name: str) -> None:
    data = PROOFS[name]
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        assert refused(changed), at
        assert not plain_check.holds(changed, ROOT), at


@pytest.mark.slow
@pytest.mark.parametrize("name", PROOFS)
def test_any_other_byte_anywhere_is_refused(name: str) -> None:
    data = PROOFS[name]
    for at in range(len(data)):
        for change in range(1, 256):
            assert refused(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]), (at, change)


@pytest.mark.parametrize("name", PROOFS)
def test_any_shorter_or_longer_file_is_refused(name: str) -> None:
    data = PROOFS[name]
    for at in range(len(data)):
        assert refused(data[:at]), at
        assert refused(data[at:] + data[:at]) or at == 0
        assert refused(data[:at] + data[at + 1 :]), at
        assert refused(data[:at] + data[at : at + 1] + data[at:]), at
    for tail in (b" ", b"\n", b"\0", data):
        assert refused(data + tail)
        assert refused(tail + data)
