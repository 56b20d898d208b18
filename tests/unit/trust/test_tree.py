"""The log's Merkle tree against published roots, and its proofs against another way to read them."""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from shardrel.trust.tree import EMPTY, Tree, extends

# The test data of Certificate Transparency: eight entries, and the roots of their prefixes.
ENTRIES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MANY = [f"entry {n}".encode() for n in range(33)]
TREE = Tree(MANY)


def naive_root(entries: Sequence[bytes]) -> bytes:
    """The definition of RFC 6962, word by word."""
    if not entries:
        return sha256().digest()
    if len(entries) == 1:
        return sha256(b"\x00" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return sha256(b"\x01" + naive_root(entries[:split]) + naive_root(entries[split:])).digest()


def roots_of_proof(old: int, new: int, proof: Iterator[bytes], given: bytes | None) -> tuple[bytes, bytes]:
    """Both roots by recursion over the shape of the tree, where the product climbs by bits."""
    if old == new:
        node = next(proof) if given is None else given
        return node, node
    split = 1
    while split * 2 < new:
        split *= 2
    if old <= split:
        first, second = roots_of_proof(old, split, proof, given)
        return first, sha256(b"\x01" + second + next(proof)).digest()
    first, second = roots_of_proof(old - split, new - split, proof, None)
    left = next(proof)
    return sha256(b"\x01" + left + first).digest(), sha256(b"\x01" + left + second).digest()


def test_roots_are_the_published_ones() -> None:
    tree = Tree(ENTRIES)
    assert [tree.root(size).hex() for size in range(9)] == ROOTS
    assert [Tree(ENTRIES[:size]).root(size).hex() for size in range(9)] == ROOTS


def test_roots_are_those_of_the_definition() -> None:
    assert [TREE.root(size) for size in range(34)] == [naive_root(MANY[:size]) for size in range(34)]
    assert naive_root([]) == EMPTY


@pytest.mark.parametrize("new", range(1, 34))
def test_a_proof_shows_what_it_should_to_another_reader_too(new: int) -> None:
    for old in range(1, new + 1):
        proof = TREE.consistency(old, new)
        assert extends((old, TREE.root(old)), (new, TREE.root(new)), proof)
        rest = iter(proof)
        assert roots_of_proof(old, new, rest, TREE.root(old)) == (TREE.root(old), TREE.root(new))
        assert next(rest, None) is None


def test_every_log_extends_the_empty_one() -> None:
    assert extends((0, EMPTY), (5, TREE.root(5)), [])
    assert not extends((0, TREE.root(1)), (5, TREE.root(5)), [])
    assert not extends((0, EMPTY), (5, TREE.root(5)), [TREE.root(1)])


@pytest.mark.parametrize(("old", "new"), [(1, 2), (3, 4), (4, 7), (6, 33), (16, 32), (32, 33), (7, 7)])
def test_a_proof_that_was_tampered_with_shows_nothing(old: int, new: int) -> None:
    before, after, proof = (old, TREE.root(old)), (new, TREE.root(new)), TREE.consistency(old, new)
    other = sha256(b"other").digest()
    wrong = [
        (before, after, [*proof, other]),
        (before, after, [other, *proof]),
        ((old, other), after, proof),
        (before, (new, other), proof),
        ((new + 1, after[1]), after, proof),
        *((before, after, proof[:at] + proof[at + 1 :]) for at in range(len(proof))),
        *((before, after, [*proof[:at], other, *proof[at + 1 :]]) for at in range(len(proof))),
    ]
    assert not [case for case in wrong if extends(*case)]


def test_another_history_of_the_same_length_has_no_proof() -> None:
    fork = Tree([*MANY[:10], b"another", *MANY[11:]])
    assert extends((10, TREE.root(10)), (33, fork.root(33)), fork.consistency(10, 33))
    for proof in (fork.consistency(11, 33), TREE.consistency(11, 33)):
        assert not extends((11, TREE.root(11)), (33, fork.root(33)), proof)
