"""Leaves, order, tree and difference against slow references written from the SPEC."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardrel.digest import to_digest
from shardrel.membership.columns import Members, concat, from_table
from shardrel.membership.diff import Difference, difference
from shardrel.membership.merkle import BLOCK_LEAVES, MerkleStream, ordered_root
from shardrel.membership.order import canonical_order, range_of
from shardrel.membership.tuples import member_leaves, member_set_digest
from tests.support.members import members_of, slow_leaf, slow_tree
from verifier.tree import OrderedTree

SCHEMA = bytes(range(32))


def row(sample: str, source: str = "s", version: str = "1", content: int = 0, split: str = "train") -> tuple[Any, ...]:
    return sample, source, version, bytes([content]) * 32, split


def test_a_leaf_is_the_hash_of_its_length_prefixed_tuple() -> None:
    rows = [row("a"), row("ab", "", "07", 3, "é"), row("\U0001f600", "s\0", "7", 255, "")]
    assert [leaf.tobytes() for leaf in member_leaves(members_of(rows), SCHEMA)] == [slow_leaf(r, SCHEMA) for r in rows]


def test_dictionaries_and_slices_do_not_change_leaves() -> None:
    rows = [row(f"id-{i}", f"file-{i % 3}", str(i % 2), i % 7, "test" if i % 5 else "train") for i in range(300)]
    members = members_of(rows)
    plain = member_leaves(members, SCHEMA)
    coded = Members(
        sample_ids=members.sample_ids.dictionary_encode(),
        source_ids=members.source_ids.dictionary_encode(),
        source_versions=members.source_versions.dictionary_encode(),
        splits=members.splits.dictionary_encode(),
        digests=members.digests,
    )
    assert np.array_equal(member_leaves(coded, SCHEMA), plain)
    assert np.array_equal(member_leaves(coded.take(np.arange(100, 200)), SCHEMA), plain[100:200])


def test_swapping_bytes_between_neighbouring_fields_changes_the_leaf() -> None:
    leaves = member_leaves(members_of([row("ab", "c"), row("a", "bc"), row("abc", "")]), SCHEMA)
    assert len({leaf.tobytes() for leaf in leaves}) == 3


def test_order_compares_unsigned_bytes_and_then_the_other_fields() -> None:
    rows = [
        row("b"), row("a\0"), row("é"), row("\uffff"), row("\U00010000"), row("a", "t"), row("a", "s", "2"),
        row("a", "s", "10", 9), row("a", "s", "10", 2, "z"), row("a", "s", "10", 2, "y"), row("aa"),
    ]  # fmt: skip
    keys = [tuple(f if isinstance(f, bytes) else f.encode() for f in r) for r in rows]
    assert canonical_order(members_of(rows)).tolist() == sorted(range(len(rows)), key=keys.__getitem__)


def test_ranges_end_with_their_border() -> None:
    ids = pa.array(["", "a", "aa", "b", "ba", "zz"])
    assert range_of(ids, pa.array(["a", "b", "c"])).tolist() == [0, 0, 1, 1, 2, 2]
    assert range_of(ids, pa.array(["c"])).tolist() == [0] * 6
    assert range_of(ids, pa.array(["", "0", "zy", "zzz"])).tolist() == [0, 2, 2, 2, 2, 3]


def test_ranges_are_the_same_in_whatever_order_the_ids_are() -> None:
    rng = np.random.default_rng(1)
    texts = [f"{number:03}" for number in rng.integers(0, 1000, 500)]
    borders = pa.array(["100", "100!", "500", "999"])
    for ids in (texts, sorted(set(texts)), sorted(texts), texts[:1], []):
        wanted = [sum(border < text for border in ("100", "100!", "500")) for text in ids]
        assert range_of(pa.array(ids, pa.string()), borders).tolist() == wanted


def test_borders_that_do_not_grow_end_nothing() -> None:
    """A snapshot that does not hold together is told as such by whoever compares with it."""
    assert len(range_of(pa.array(["a", "b", "c"]), pa.array(["b", "a", "z"]))) == 3


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 129])
def test_the_tree_has_the_shape_of_rfc_6962(n: int) -> None:
    leaves = np.frombuffer(b"".join(hashlib.sha256(bytes([i])).digest() for i in range(n)), np.uint8).reshape(n, 32)
    stream = MerkleStream()
    stream.append(leaves)
    assert stream.root() == slow_tree([leaf.tobytes() for leaf in leaves])
    assert stream.count == n


@pytest.mark.parametrize("n", [1, BLOCK_LEAVES - 1, BLOCK_LEAVES, BLOCK_LEAVES + 1, 2 * BLOCK_LEAVES + 5])
def test_the_tree_is_one_over_the_roots_of_its_blocks(n: int) -> None:
    leaves = np.arange(n * 4, dtype="<u8").view(np.uint8).reshape(n, 32)
    stream = MerkleStream()
    for at in range(0, n, 40_000):
        stream.append(leaves[at : at + 40_000])
    whole = [leaf.tobytes() for leaf in leaves]
    assert stream.block_roots() == [slow_tree(whole[at : at + BLOCK_LEAVES]) for at in range(0, n, BLOCK_LEAVES)]
    assert stream.root() == slow_tree(stream.block_roots())
    again = OrderedTree()
    again.append(leaves)
    assert again.block_roots() == tuple(map(to_digest, stream.block_roots()))
    assert again.head() == stream.root()


def test_an_empty_tree_has_no_root() -> None:
    with pytest.raises(ValueError, match="empty"):
        MerkleStream().root()


def test_watermarks_and_count_are_part_of_the_ordered_root() -> None:
    roots = {ordered_root(b"t" * 32, n, t, b) for n, t, b in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]}
    assert len(roots) == 4


def test_a_member_set_digest_counts_duplicates() -> None:
    one = member_leaves(members_of([row("a")]), SCHEMA)
    assert member_set_digest(one) != member_set_digest(np.concatenate((one, one)))


def test_equal_memberships_have_no_difference() -> None:
    rows = [row("a"), row("b"), row("c")]
    assert not difference(members_of(rows), members_of(rows))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([row("a"), row("c")], Difference(missing=1)),
        ([row("a"), row("b"), row("bb"), row("c")], Difference(extra=1)),
        ([row("a"), row("b"), row("b"), row("c")], Difference(extra=1)),
        ([row("a"), row("b", content=1), row("c")], Difference(changed=1)),
        ([row("a"), row("b", split="test"), row("c", "t")], Difference(changed=2)),
        ([row("a", version="2"), row("bb"), row("c")], Difference(missing=1, extra=1, changed=1)),
        ([], Difference(missing=3)),
    ],
)
def test_differences_are_counted_by_kind(found: list[Any], expected: Difference) -> None:
    assert difference(members_of([row("a"), row("b"), row("c")]), members_of(found)) == expected


def test_members_survive_a_table() -> None:
    rows = [row("a"), row("b", "t", "2", 7, "test")]
    again = from_table(concat([members_of(rows[:1]), members_of(rows[1:])]).to_table())
    assert not difference(members_of(rows), again)
