"""Proofs of any small membership: what is proved is what is there, and nothing else can be passed off as a proof."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.digest import raw_digest, to_digest
from shardrel.errors import ShardrelError
from shardrel.membership.proof import tree_of_range
from shardrel.records.proof import Proof, in_words
from tests.support import plain_check
from tests.support.members import slow_leaf, slow_tree
from tests.support.proofs import SCHEMA, Row, a_manifest, root_of, slow_proof, sorted_rows
from verifier.proof import check_proof

# Few ids, so that some are there twice and more, and neighbours are prefixes of each other.
IDS = st.text(alphabet=["a", "b", "\0", "é", "\uffff", "\U00010000"], min_size=1, max_size=3)
ROWS = st.lists(
    st.tuples(IDS, st.sampled_from(["s", "t"]), st.sampled_from(["1", "2"]), st.sampled_from([b"\0" * 32, b"\xff" * 32]),
              st.sampled_from(["train", "test"])),
    min_size=1, max_size=40,
).map(sorted_rows)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(ROWS, st.data())
def test_the_count_is_that_of_the_members(rows: list[Row], data: st.DataObject) -> None:
    sample_id = data.draw(st.one_of(IDS, st.sampled_from([row[0] for row in rows])))
    proof = slow_proof(rows, sample_id)
    checked = check_proof(json.encode(proof), root_of(proof.release), sample_id)
    assert checked.count == sum(row[0] == sample_id for row in rows)
    leaves = [slow_leaf(row, raw_digest(SCHEMA)) for row in rows]
    shown = leaves[
        proof.first : proof.first + len(proof.members) + (proof.left is not None) + (proof.right is not None)
    ]
    nodes = [raw_digest(node) for node in proof.nodes]
    assert tree_of_range(proof.first, shown, nodes, len(rows)) == slow_tree(leaves)


@settings(max_examples=150, deadline=None)
@given(ROWS, st.data())
def test_nobody_shows_fewer_or_more_than_there_are(rows: list[Row], data: st.DataObject) -> None:
    """Whatever is put together of true pieces about one id, only the true count comes through."""
    sample_id = data.draw(st.sampled_from([row[0] for row in rows]))
    manifest = a_manifest(rows)
    true, other = slow_proof(rows, sample_id, manifest), slow_proof(rows, data.draw(IDS), manifest)
    forged = replace(
        true,
        first=data.draw(st.integers(0, len(rows))),
        left=data.draw(st.sampled_from([None, true.left, true.right, other.left, other.right])),
        right=data.draw(st.sampled_from([None, true.right, true.left, other.right, other.left])),
        members=data.draw(st.sampled_from([true.members, true.members[1:], true.members[:-1], other.members])),
        nodes=data.draw(
            st.sampled_from([true.nodes, other.nodes, true.nodes[1:], (*true.nodes, to_digest(b"\0" * 32))])
        ),
    )
    forged = replace(forged, count=len(forged.members))
    assert _count(forged, root_of(manifest)) in {None, true.count}


def _count(proof: Proof, root: str) -> int | None:
    # The words follow the facts: a forger writes the ones that fit.
    data = json.encode(replace(proof, about=in_words(root, proof.release, proof.sample_id, proof.count)))
    try:
        count = check_proof(data, root).count
    except ShardrelError:
        assert not plain_check.holds(data, root)
        return None
    assert plain_check.holds(data, root)
    return count
