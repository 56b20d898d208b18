"""prove: how many members of a release have a sample id, as a file that anybody can check. Source: schemas/SPEC.md#proofs"""

from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.canonical.sha import Bytes32
from shardrel.data.reading import PartList, Reading
from shardrel.digest import Domain, domain_hash, lp, raw_digest, to_digest
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.membership.bounds import MAX_ID_BYTES
from shardrel.membership.merkle import BLOCK_LEAVES, ordered_root
from shardrel.membership.proof import range_nodes, tree_of_range
from shardrel.proofs.index import IndexList
from shardrel.proofs.reading import declared_member, stored_member
from shardrel.records.proof import Neighbour, Proof, ProvenMember, in_words
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store


def prove(store: Store, root: str, sample_id: str, reading: Reading) -> Proof:
    """Prove presence, absence or duplication of a sample id in a release.

    Reads the manifest, one part of the snapshot and the parts of the member index that hold one block of
    leaves (two where the neighbours lie in different ones): no work grows with the release but that with
    the list of block roots.

    Args:
        store: Where the release is.
        root: Digest of its root manifest.
        sample_id: The id that the proof is about.
        reading: How parts and shards are opened.

    Raises:
        InvalidInputError: ``input.invalid`` for an id that no sample can have.
        IntegrityError: ``member-index.mismatch`` when the member index does not lead to the ordered root;
            ``snapshot.invalid`` when a part of the snapshot is none.
        ShardrelError: Storage and format codes of what is read.

    Source: schemas/SPEC.md#proofs
    """
    if not 0 < len(_utf8(sample_id)) <= MAX_ID_BYTES:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a sample id has 1 to 1,024 bytes")
    release = json.decode(get_by_digest(store, root), Release)
    index = get_record(store, release.objects.member_index, MemberIndex)
    _check_counts(index, release)
    made = _Made(
        store=store,
        release=release,
        declared=reading.snapshot(get_record(store, release.objects.snapshot, Snapshot)),
        index=IndexList(reading.index(index, release)),
        reading=reading,
    )
    first, last = made.index.range_of(sample_id)
    lower, upper = max(first - 1, 0), min(last + 1, made.index.count)
    _check_ids(made.index, sample_id, (lower, first, last, upper))
    nodes = range_nodes(
        lower, upper, made.index.count, [raw_digest(one) for one in index.block_roots], made.index.leaves
    )
    _check_root(release, lower, made.index.leaves(lower, upper), nodes)
    members = tuple(made.member(at) for at in range(first, last))
    return Proof(
        about=in_words(root, release, sample_id, len(members)),
        sample_id=sample_id,
        count=len(members),
        first=lower,
        left=made.neighbour(lower) if lower < first else None,
        members=members,
        right=made.neighbour(last) if last < upper else None,
        nodes=tuple(to_digest(node) for node in nodes),
        release=release,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    store: Store
    release: Release
    declared: PartList
    index: IndexList
    reading: Reading

    def member(self, at: int) -> ProvenMember:
        """The tuple fields of the member at a position: the declared ones, or where those are others, the stored ones."""
        [sample_id] = self.index.sample_ids(at, at + 1)
        leaf = self.index.leaves(at, at + 1).tobytes()
        found = declared_member(self.declared, sample_id)
        if found is None or self._leaf(sample_id, found) != leaf:
            [place] = self.index.places(at, at + 1)
            found = stored_member(self.store, self.release, place, self.reading)
        if self._leaf(sample_id, found) != leaf:
            raise IntegrityError(ErrorCode.MEMBER_INDEX, "a leaf of the member index is not that of its member")
        return found

    def neighbour(self, at: int) -> Neighbour:
        """What is shown of a leaf beside."""
        member = self.member(at)
        [sample_id] = self.index.sample_ids(at, at + 1)
        origin = to_digest(self._origin(member))
        return Neighbour(sample_id=sample_id, origin=origin, content_digest=member.content_digest)

    def _leaf(self, sample_id: str, member: ProvenMember) -> bytes:
        content = raw_digest(member.content_digest)
        return domain_hash(Domain.TUPLE, self._origin(member), content, sample_id.encode())

    def _origin(self, member: ProvenMember) -> bytes:
        fields = (member.source_id, member.source_version, member.split)
        return domain_hash(
            Domain.ORIGIN, *[lp(field.encode()) for field in fields], raw_digest(self.release.record_schema)
        )


def _check_counts(index: MemberIndex, release: Release) -> None:
    blocks = -(-index.records // BLOCK_LEAVES)
    if (
        index.records != release.totals.records
        or sum(part.records for part in index.parts) != index.records
        or len(index.block_roots) != blocks
    ):
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index does not add up to the release")


def _check_ids(index: IndexList, sample_id: str, places: tuple[int, int, int, int]) -> None:
    """An index that is not in order finds a wrong place; nothing is proved of it."""
    lower, first, last, upper = places
    below, own, above = (index.sample_ids(*ends) for ends in ((lower, first), (first, last), (last, upper)))
    if first > last or any(one != sample_id for one in own) or not (below < [sample_id] < (above or [sample_id + "x"])):
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index is not in order")


def _check_root(release: Release, first: int, leaves: Bytes32, nodes: list[bytes]) -> None:
    count = release.totals.records
    head = tree_of_range(first, [leaf.tobytes() for leaf in leaves], nodes, count)
    fences = release.tombstone_watermark, release.benchmark_fence
    if head is None or to_digest(ordered_root(head, count, *fences)) != release.ordered_member_tuple_root:
        raise IntegrityError(ErrorCode.MEMBER_INDEX, "the member index does not lead to the release's ordered root")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a sample id is valid UTF-8") from None


def proof_bytes(proof: Proof) -> bytes:
    """What the file of a proof holds."""
    return json.encode(proof)
