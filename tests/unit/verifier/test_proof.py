"""What is wrong with a proof is said by its code. Proofs here are made by the definitions, without our builder."""

import json as plain_json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.digest import digest_of, raw_digest, to_digest
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.records.proof import Proof, in_words
from tests.support import plain_check
from tests.support.members import slow_leaf
from tests.support.proofs import (
    SCHEMA,
    a_manifest,
    a_member,
    a_neighbour,
    root_of,
    slow_nodes,
    slow_proof,
    sorted_rows,
)  # fmt: skip
from verifier.proof import check_proof

ROWS = sorted_rows(
    [(f"id-{n:02d}", f"file-{n % 3}", str(n % 2), bytes([n]) * 32, "train") for n in range(20)]
    + [("id-07", "file-9", "1", b"\7" * 32, "train"), ("id-07", "file-9", "1", b"\7" * 32, "train")]
)
MANIFEST = a_manifest(ROWS)
ROOT = root_of(MANIFEST)
OTHER = to_digest(b"\xee" * 32)
ONE, THREE, NONE = (slow_proof(ROWS, name, MANIFEST) for name in ("id-11", "id-07", "id-07x"))
FIRST, LAST, BEFORE, BEHIND = (slow_proof(ROWS, name, MANIFEST) for name in ("id-00", "id-19", "a", "z"))


def code(proof: Proof, root: str = ROOT, sample_id: str | None = None) -> ErrorCode | None:
    """Code of the refusal; None where the proof holds. The page of plain Python says the same."""
    found = refusal(json.encode(proof), root, sample_id)
    assert plain_check.holds(json.encode(proof), root) == (found in {None, ErrorCode.PROOF_SAMPLE})
    return found


def refusal(data: bytes, root: str, sample_id: str | None) -> ErrorCode | None:
    try:
        check_proof(data, root, sample_id)
    except ShardrelError as err:
        return err.code
    return None


@pytest.mark.parametrize(
    ("proof", "count"), [(ONE, 1), (THREE, 3), (NONE, 0), (FIRST, 1), (LAST, 1), (BEFORE, 0), (BEHIND, 0)]
)
def test_presence_duplication_and_absence(proof: Proof, count: int) -> None:
    assert check_proof(json.encode(proof), ROOT, proof.sample_id).count == count == proof.count


def test_a_release_of_one_member() -> None:
    rows = [("m", "s", "1", b"\1" * 32, "test")]
    root = root_of(a_manifest(rows))
    assert [check_proof(json.encode(slow_proof(rows, name)), root).count for name in ("a", "m", "z")] == [0, 1, 0]


def test_it_says_in_words_what_it_shows() -> None:
    assert THREE.about == (
        f'Release {ROOT} of the dataset data holds exactly 3 members with the sample id "id-07". It has 22 members. By '
        "its manifest, deletions are taken into account up to entry 3 of the tombstone log, and benchmarks up to entry 2 "
        "of the benchmark log."
    )


def less_shown(proof: Proof) -> Proof:
    """The last member is passed off as the neighbour, and the nodes are right for what is left."""
    shorter = slow_proof(ROWS, proof.sample_id, MANIFEST)
    own = [row for row in ROWS if row[0] == proof.sample_id]
    at = ROWS.index(own[0])
    outer = slow_proof_nodes(at - 1, at + len(own))
    return reworded(replace(shorter, count=2, members=proof.members[:2], right=a_neighbour(own[-1]), nodes=outer))


def slow_proof_nodes(first: int, last: int) -> tuple[str, ...]:
    leaves = [slow_leaf(row, raw_digest(SCHEMA)) for row in ROWS]
    return tuple(map(to_digest, slow_nodes(leaves, first, last)))


def reworded(proof: Proof) -> Proof:
    """The proof with the sentence that fits what it claims."""
    return replace(proof, about=in_words(root_of(proof.release), proof.release, proof.sample_id, proof.count))


def with_release(proof: Proof, **changes: Any) -> Proof:
    return replace(proof, release=replace(proof.release, **changes))


WRONG: list[tuple[str, Callable[[], Proof], ErrorCode]] = [
    ("another watermark", lambda: with_release(ONE, tombstone_watermark=4), ErrorCode.PROOF_ROOT),
    ("another ordered root", lambda: with_release(ONE, ordered_member_tuple_root=OTHER), ErrorCode.PROOF_ROOT),
    ("a count above", lambda: reworded(replace(THREE, count=4)), ErrorCode.PROOF_INCOMPLETE),
    ("a count below", lambda: reworded(replace(THREE, count=2)), ErrorCode.PROOF_INCOMPLETE),
    ("a member as neighbour", lambda: less_shown(THREE), ErrorCode.PROOF_INCOMPLETE),
    ("no left neighbour", lambda: replace(ONE, left=None, first=ONE.first + 1), ErrorCode.PROOF_INCOMPLETE),
    ("no right neighbour", lambda: replace(ONE, right=None), ErrorCode.PROOF_INCOMPLETE),
    ("no left, at another place", lambda: replace(ONE, left=None, first=0), ErrorCode.PROOF_TREE),
    ("no leaf", lambda: reworded(replace(NONE, left=None, right=None, first=22)), ErrorCode.PROOF_POSITION),
    ("behind the tree", lambda: replace(LAST, first=LAST.first + 1), ErrorCode.PROOF_POSITION),
    ("far behind it", lambda: replace(LAST, first=2**53 - 1), ErrorCode.PROOF_POSITION),
    ("one to the right", lambda: replace(ONE, first=ONE.first + 1), ErrorCode.PROOF_TREE),
    ("two to the right", lambda: replace(ONE, first=ONE.first + 2), ErrorCode.PROOF_NODES),
    ("swapped neighbours", lambda: replace(ONE, left=ONE.right, right=ONE.left), ErrorCode.PROOF_ORDER),
    ("a neighbour too high", lambda: replace(ONE, left=a_neighbour(ROWS[-1])), ErrorCode.PROOF_ORDER),
    ("a neighbour too low", lambda: replace(ONE, right=a_neighbour(ROWS[0])), ErrorCode.PROOF_ORDER),
    ("a farther neighbour", lambda: replace(ONE, left=a_neighbour(ROWS[0])), ErrorCode.PROOF_TREE),
    ("swapped members", lambda: replace(THREE, members=THREE.members[::-1]), ErrorCode.PROOF_ORDER),
    ("another member", lambda: replace(ONE, members=(a_member(ROWS[0]),)), ErrorCode.PROOF_TREE),
    ("another split", lambda: replace(ONE, members=(replace(ONE.members[0], split="test"),)), ErrorCode.PROOF_TREE),
    ("a node too few", lambda: replace(ONE, nodes=ONE.nodes[:-1]), ErrorCode.PROOF_NODES),
    ("no node", lambda: replace(ONE, nodes=()), ErrorCode.PROOF_NODES),
    ("a node too many", lambda: replace(ONE, nodes=(*ONE.nodes, OTHER)), ErrorCode.PROOF_NODES),
    ("a node in front", lambda: replace(ONE, nodes=(OTHER, *ONE.nodes)), ErrorCode.PROOF_NODES),
    ("swapped nodes", lambda: replace(ONE, nodes=ONE.nodes[::-1]), ErrorCode.PROOF_TREE),
    ("another node", lambda: replace(ONE, nodes=(*ONE.nodes[:-1], OTHER)), ErrorCode.PROOF_TREE),
    ("absence of what is beside", lambda: reworded(replace(NONE, sample_id="id-07")), ErrorCode.PROOF_INCOMPLETE),
    ("absence of what is elsewhere", lambda: reworded(replace(NONE, sample_id="id-03")), ErrorCode.PROOF_ORDER),
    ("another id for the member", lambda: reworded(replace(ONE, sample_id="id-11x")), ErrorCode.PROOF_TREE),
    ("other words", lambda: replace(ONE, about=NONE.about), ErrorCode.PROOF_WORDS),
    ("more words", lambda: replace(ONE, about=ONE.about + " All is well."), ErrorCode.PROOF_WORDS),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), [pytest.param(make, want, id=name) for name, make, want in WRONG])
def test_a_wrong_proof_is_refused_by_its_code(make: Callable[[], Proof], expected: ErrorCode) -> None:
    assert code(make()) == expected


def test_a_proof_of_another_release_is_refused() -> None:
    assert code(ONE, OTHER) == ErrorCode.PROOF_ROOT
    fewer = slow_proof(ROWS[1:], "id-11")
    assert code(fewer) == ErrorCode.PROOF_ROOT
    assert code(fewer, root_of(fewer.release)) is None
    assert code(replace(fewer, release=MANIFEST)) == ErrorCode.PROOF_TREE


def test_a_proof_about_another_sample_is_refused() -> None:
    assert code(ONE, sample_id="id-11") is None
    assert code(ONE, sample_id="id-12") == ErrorCode.PROOF_SAMPLE


def test_a_tree_that_is_not_sorted_shows_where_it_is_looked_at() -> None:
    rows = [ROWS[3], ROWS[2], *ROWS[4:]]
    release = a_manifest(rows)
    assert code(slow_proof(rows, ROWS[3][0], release), root_of(release)) == ErrorCode.PROOF_ORDER


def test_bytes_that_are_no_proof_are_refused() -> None:
    data = json.encode(ONE)
    cases = {
        b"": ErrorCode.FORMAT_NOT_A_RECORD,
        b"{}": ErrorCode.FORMAT_NOT_A_RECORD,
        json.encode(MANIFEST): ErrorCode.FORMAT_UNKNOWN_SCHEMA,
        data + b"\n": ErrorCode.FORMAT_NOT_CANONICAL,
        data + data: ErrorCode.FORMAT_NOT_A_RECORD,
        data.replace(b'"count":1', b'"count":1.0'): ErrorCode.FORMAT_NOT_CANONICAL,
    }
    for given, expected in cases.items():
        with pytest.raises(ShardrelError) as caught:
            check_proof(given, ROOT)
        assert caught.value.code in {expected, ErrorCode.FORMAT_NOT_A_RECORD}


def changed_shapes(value: Any) -> Iterator[Any]:
    """The value with any one thing inside of it replaced by a thing of another kind, taken out, or added."""
    yield from (other for other in (None, True, 0, 1.5, "x", [], {}, [value], {"x": value}) if other != value)
    if isinstance(value, dict):
        yield {**value, "x": None}
        yield {"": 0, **value}
        for key in value:
            yield {name: one for name, one in value.items() if name != key}
            # Of the manifest, a change anywhere is a change of its digest.
            if key != "release":
                yield from ({**value, key: other} for other in changed_shapes(value[key]))
    if isinstance(value, list):
        yield {one: None for one in value if isinstance(one, str)}
        for at, one in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in changed_shapes(one))


@pytest.mark.parametrize("proof", [ONE, THREE, NONE, BEFORE, BEHIND])
def test_a_proof_of_another_shape_is_refused(proof: Proof) -> None:
    for value in changed_shapes(plain_json.loads(json.encode(proof))):
        data = plain_json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert refusal(data, ROOT, None) is not None
        assert not plain_check.holds(data, ROOT)


def test_the_digest_is_of_the_manifest_as_it_is_stored() -> None:
    assert digest_of(json.encode(json.decode(json.encode(ONE), Proof).release)) == ROOT
