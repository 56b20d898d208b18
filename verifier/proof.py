"""Check a proof about one sample id against a root digest, offline. Source: schemas/SPEC.md#proofs

Nothing but the root digest and the proof is looked at, and nothing but SHA-256 and canonical JSON is needed.
"""

import operator
from collections.abc import Iterator, Sequence

from shardrel.canonical import json
from shardrel.digest import Domain, digest_of, domain_hash, lp, raw_digest, to_digest, u64
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.proof import Neighbour, Proof, ProvenMember, in_words


def check_proof(data: bytes, root: str, sample_id: str | None = None) -> Proof:
    """Check a proof; what is given back holds.

    Args:
        data: The proof's bytes.
        root: Digest of the root manifest that the proof has to be about.
        sample_id: The sample id that it has to be about; None for whatever it names.

    Raises:
        FormatError: ``format.…`` when it is no canonical proof record.
        IntegrityError: ``proof.…`` with what is wrong.

    Source: schemas/SPEC.md#proofs
    """
    proof = json.decode(data, Proof)
    if digest_of(json.encode(proof.release)) != root:
        raise IntegrityError(ErrorCode.PROOF_ROOT, "the proof is about another release")
    if sample_id is not None and proof.sample_id != sample_id:
        raise IntegrityError(ErrorCode.PROOF_SAMPLE, "the proof is about another sample id")
    leaves = _leaves(proof)
    _check_place(proof, len(leaves))
    _check_order(proof)
    _check_tree(proof, leaves)
    if proof.about != in_words(root, proof.release, proof.sample_id, proof.count):
        raise IntegrityError(ErrorCode.PROOF_WORDS, "the proof says in words what it does not show")
    return proof


def tree_head(first: int, leaves: Sequence[bytes], nodes: Sequence[bytes], count: int) -> bytes | None:
    """Hash of the tree of ``count`` leaves that has these from ``first`` on, and these nodes beside them.

    Level by level: the row of known nodes takes its neighbour on either side where it begins or ends inside of
    a pair, and pairs become the next row. A last node without a partner goes up as it is.

    Returns:
        None where there are more or fewer nodes than such a tree has.
    """
    start, stop, size, row = first, first + len(leaves), count, list(leaves)
    lefts = start.bit_count()
    before, after = iter(reversed(nodes[:lefts])), iter(nodes[lefts:])
    if len(nodes) < lefts:
        return None
    while size > 1:
        if start % 2:
            row.insert(0, next(before))
        if stop % 2 and stop < size:
            following = next(after, None)
            if following is None:
                return None
            row.append(following)
        row = list(_pairs(row))
        start, stop, size = start // 2, (stop + 1) // 2, (size + 1) // 2
    return row[0] if next(after, None) is None else None


def _pairs(row: list[bytes]) -> Iterator[bytes]:
    for at in range(0, len(row) - 1, 2):
        yield domain_hash(Domain.NODE, row[at], row[at + 1])
    if len(row) % 2:
        yield row[-1]


def _check_place(proof: Proof, shown: int) -> None:
    size, end = proof.release.totals.records, proof.first + shown
    if proof.count != len(proof.members):
        raise IntegrityError(ErrorCode.PROOF_INCOMPLETE, "the proof shows another number of members than it says")
    if not shown or end > size:
        raise IntegrityError(ErrorCode.PROOF_POSITION, "the proof shows no leaf, or leaves outside of the tree")
    if (proof.left is None and proof.first > 0) or (proof.right is None and end < size):
        raise IntegrityError(ErrorCode.PROOF_INCOMPLETE, "the proof leaves a neighbour out")


def _check_order(proof: Proof) -> None:
    own = proof.sample_id.encode()
    for neighbour, wrong in ((proof.left, operator.ge), (proof.right, operator.le)):
        if neighbour is None:
            continue
        other = neighbour.sample_id.encode()
        if other == own:
            raise IntegrityError(
                ErrorCode.PROOF_INCOMPLETE, "a neighbour has the same sample id: not all members are shown"
            )
        if wrong(other, own):
            raise IntegrityError(ErrorCode.PROOF_ORDER, "a neighbour is on the wrong side of the sample id")
    keys = [_key(member) for member in proof.members]
    if keys != sorted(keys):
        raise IntegrityError(ErrorCode.PROOF_ORDER, "the members are not in canonical order")


def _key(member: ProvenMember) -> tuple[bytes, bytes, bytes, bytes]:
    content = raw_digest(member.content_digest)
    return member.source_id.encode(), member.source_version.encode(), content, member.split.encode()


def _check_tree(proof: Proof, leaves: Sequence[bytes]) -> None:
    release = proof.release
    head = tree_head(proof.first, leaves, [raw_digest(node) for node in proof.nodes], release.totals.records)
    if head is None:
        raise IntegrityError(ErrorCode.PROOF_NODES, "the proof has more or fewer nodes than the tree beside its leaves")
    tail = u64(release.totals.records) + u64(release.tombstone_watermark) + u64(release.benchmark_fence)
    if to_digest(domain_hash(Domain.ROOT, head, tail)) != release.ordered_member_tuple_root:
        raise IntegrityError(ErrorCode.PROOF_TREE, "the leaves do not lead to the release's ordered root")


def _leaves(proof: Proof) -> list[bytes]:
    schema, own = raw_digest(proof.release.record_schema), proof.sample_id.encode()
    members = [_leaf(_origin(member, schema), member.content_digest, own) for member in proof.members]
    return [*_neighbours(proof.left), *members, *_neighbours(proof.right)]


def _neighbours(one: Neighbour | None) -> list[bytes]:
    return [] if one is None else [_leaf(raw_digest(one.origin), one.content_digest, one.sample_id.encode())]


def _origin(member: ProvenMember, schema: bytes) -> bytes:
    fields = (member.source_id, member.source_version, member.split)
    return domain_hash(Domain.ORIGIN, *[lp(field.encode()) for field in fields], schema)


def _leaf(origin: bytes, content_digest: str, sample_id: bytes) -> bytes:
    return domain_hash(Domain.TUPLE, origin, raw_digest(content_digest), sample_id)
