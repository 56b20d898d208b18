"""Membership for any members: the vectorised code agrees with the definitions."""

import hashlib
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.membership.diff import difference
from shardrel.membership.merkle import MerkleStream
from shardrel.membership.order import canonical_order
from shardrel.membership.tuples import member_leaves
from tests.support.members import members_of, slow_leaf, slow_tree

# Few distinct characters, so that equal ids, prefixes and NUL tails come up.
WORD = st.text(alphabet=["a", "b", "\0", "é", "\uffff", "\U00010000"], max_size=4)
ROW = st.tuples(
    WORD, st.sampled_from(["s", "t", ""]), st.sampled_from(["1", "01"]), st.sampled_from([b"\0" * 32, b"\xff" * 32]),
    st.sampled_from(["train", "test"]),
)  # fmt: skip
ROWS = st.lists(ROW, min_size=1, max_size=90)


def key(row: tuple[Any, ...]) -> tuple[bytes, ...]:
    return tuple(field if isinstance(field, bytes) else field.encode() for field in row)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_leaves_agree_with_the_definition(rows: list[tuple[Any, ...]]) -> None:
    schema = hashlib.sha256(b"schema").digest()
    assert [leaf.tobytes() for leaf in member_leaves(members_of(rows), schema)] == [slow_leaf(r, schema) for r in rows]


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_order_agrees_with_sorting_byte_tuples(rows: list[tuple[Any, ...]]) -> None:
    assert [rows[i] for i in canonical_order(members_of(rows))] == sorted(rows, key=key)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.data())
def test_a_tree_does_not_depend_on_how_leaves_arrive(n: int, data: st.DataObject) -> None:
    leaves = [hashlib.sha256(n.to_bytes(4, "little") + bytes([i])).digest() for i in range(n)]
    matrix = np.frombuffer(b"".join(leaves), np.uint8).reshape(n, 32)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    stream = MerkleStream()
    for first, last in zip([0, *cuts], [*cuts, n], strict=True):
        stream.append(matrix[first:last])
    assert stream.root() == slow_tree(leaves)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(WORD, ROW, max_size=12), st.lists(ROW, max_size=12))
def test_no_difference_means_the_same_multiset(
    unique: dict[str, tuple[Any, ...]], found: list[tuple[Any, ...]]
) -> None:
    declared = sorted([(name, *row[1:]) for name, row in unique.items()], key=key)
    found = sorted(found, key=key)
    assert bool(difference(members_of(declared), members_of(found))) == (declared != found)
    assert not difference(members_of(declared), members_of(declared))
