"""Membership of a release against its snapshot, range by range. Source: schemas/SPEC.md#verification (4, 5, 9)"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from shardrel.canonical.sha import Bytes32
from shardrel.errors import ErrorCode
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.port import Store
from shardrel.trust.sealed_parts import PartsKey
from verifier import snapshot_totals
from verifier.compare import Compared, compare
from verifier.fences import Selectors, named
from verifier.index import Indexed, mismatches, proposed_order, read_range
from verifier.leaves import canonical_order
from verifier.parts import Fetch, Listed, empty_listed, fetched, fetched_together, overlapping, read_snapshot_part
from verifier.pool import in_order
from verifier.runs import Runs
from verifier.seen import Seen
from verifier.snapshot_totals import Listing, listing_of
from verifier.structure import FlawError
from verifier.tally import Spot, Tally
from verifier.tree import OrderedTree

# Ranges for which freed memory is kept.
_KEPT_RANGES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What the ranges of a release are compared with.

    Attributes:
        index: None when it could not be read; then it is not compared.
        keys: Of the parts of snapshot and member index, where they are encrypted.
        excluded: Selectors of what a publisher leaves out: the logs up to the root's own watermarks.
    """

    store: Store
    release: Release
    snapshot: Snapshot
    index: MemberIndex | None
    excluded: tuple[Selectors, Selectors]
    runs: Runs
    keys: tuple[PartsKey | None, PartsKey | None] = (None, None)

    @property
    def borders(self) -> list[str]:
        """Last sample id of each part of the snapshot."""
        return borders_of(self.snapshot)

    def bounds(self, number: int) -> tuple[str | None, str | None]:
        """Sample ids of a range lie above the first and not above the second; the last range has no second."""
        borders = self.borders
        return borders[number - 1] if number else None, borders[number] if number < len(borders) else None


def borders_of(snapshot: Snapshot) -> list[str]:
    """Last sample id of each part."""
    return [part.last_sample_id or "" for part in snapshot.parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of comparing all ranges.

    Attributes:
        tree: Over the members that were seen.
        listing: What the snapshot's parts list; None where one could not be read.
        exact: Whether these members are exactly the declared ones.
    """

    tree: OrderedTree
    listing: Listing | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a range is compared with, or the flaws that it cannot be read for.

    Attributes:
        declared: Tuples that the snapshot declares, without those that a publisher leaves out, and what it lists.
        indexed: Entries of the member index; None without an index.
    """

    declared: tuple[Listed, Listing] | FlawError
    indexed: Indexed | FlawError | None


def read(membership: Membership, number: int) -> Read:
    """Read what one range is compared with, for which no shard needs to be known.

    Raises:
        UnavailableError: The store does not answer.
    """
    fetch = _fetch(membership, number)
    indexed = _indexed(membership, number, fetch)
    try:
        return Read(declared=_declared(membership, number, fetch), indexed=indexed)
    except FlawError as flaw:
        return Read(declared=flaw, indexed=indexed)


def _fetch(membership: Membership, number: int) -> Fetch:
    """How the parts of a range are read: usually there is one of the snapshot and one of the index."""
    lower, upper = membership.bounds(number)
    parts = [] if membership.index is None else overlapping(membership.index.parts, lower, upper)
    if upper is None or not parts:
        return partial(fetched, membership.store)
    return fetched_together(membership.store, membership.snapshot.parts[number], parts[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranged:
    """The outcome of one range."""

    leaves: Bytes32
    listing: Listing | None
    exact: bool


def compare_all(
    membership: Membership, pool: Executor, window: int, tally: Tally, ahead: dict[int, Future[Read]]
) -> Outcome:
    """Compare range after range, in parallel, and grow the ordered tree in order.

    Args:
        membership: With all runs.
        pool: Where ranges are worked on.
        window: How many at a time.
        tally: Gets what is found.
        ahead: What the first ranges are compared with, begun in the same pool before; taken out.
    """
    tree, listing, complete, exact = OrderedTree(), Listing(), True, True
    # What shards were decoded into is free by now, and of other sizes than what is needed from here on.
    pa.default_memory_pool().release_unused()

    def work(number: int) -> _Ranged:
        begun = ahead.pop(number, None)
        against = read(membership, number) if begun is None else begun.result()
        ranged, spots = _compare_range(membership, number, against)
        # What one thread frees is not what another takes: kept, it would add up over many ranges. To take pages anew
        # for every range, though, costs more than keeping them for some.
        if number % _KEPT_RANGES == _KEPT_RANGES - 1:
            pa.default_memory_pool().release_unused()
        tally.add(spots)
        return ranged

    for ranged in in_order(pool, work, range(membership.runs.ranges), window):
        tree.append(ranged.leaves)
        exact = exact and ranged.exact
        complete = complete and ranged.listing is not None
        listing.add(ranged.listing or Listing())
    return Outcome(tree=tree, listing=listing if complete else None, exact=exact)


def total_spots(membership: Membership, splits: Mapping[str, tuple[int, int]], outcome: Outcome) -> Iterator[Spot]:
    """Totals that the snapshot gives; its tokens are judged where nothing else of the membership is wrong.

    Args:
        splits: Records and tokens by split, of what was seen.
    """
    snapshot, release = membership.snapshot, membership.release
    subject = release.dataset_snapshot
    if outcome.listing is None:
        return
    yield from snapshot_totals.records(snapshot, subject, outcome.listing)
    # Another record schema is another field of every member.
    if not outcome.exact or release.record_schema != snapshot.record_schema.digest:
        return
    if release.token_column == snapshot.token_column:
        yield from snapshot_totals.tokens(snapshot, subject, splits, outcome.listing.left_out)
    if not outcome.listing.left_out:
        yield from snapshot_totals.blocks(snapshot, subject, outcome.tree.block_roots())


def tree_spots(membership: Membership, root: str, tree: OrderedTree) -> Iterator[Spot]:
    """The ordered root, and the blocks that the member index cuts the tree into."""
    release, index = membership.release, membership.index
    fences = release.tombstone_watermark, release.benchmark_fence
    if not tree.count or tree.ordered_root(*fences) != release.ordered_member_tuple_root:
        yield Spot(code=ErrorCode.ORDERED_ROOT, subject=root)
    if index is not None and index.block_roots != tree.block_roots():
        subject = release.objects.member_index.digest
        yield Spot(code=ErrorCode.MEMBER_INDEX, subject=subject, detail="its block roots are not those of the tree")


def _compare_range(membership: Membership, number: int, against: Read) -> tuple[_Ranged, list[Spot]]:
    """Everything about one range: differences from the snapshot, and the member index."""
    seen = membership.runs.get(number)
    declared, indexed = against.declared, against.indexed
    subject = membership.release.dataset_snapshot
    listing = None
    if isinstance(declared, FlawError):
        ordered = seen.ordered(canonical_order(seen.ids, seen.context, seen.content))
        compared = Compared(seen=ordered, spots=[Spot(code=declared.code, subject=subject, detail=declared.detail)])
    else:
        listed, listing = declared
        proposed = proposed_order(indexed, seen) if isinstance(indexed, Indexed) else None
        compared = compare(listed, seen, subject, lambda shard: membership.release.shards[shard].id, proposed)
    del seen
    ranged = _Ranged(leaves=compared.seen.leaves, listing=listing, exact=not compared.spots)
    return ranged, [*compared.spots, *_index_spots(membership, indexed, compared.seen)]


def _declared(membership: Membership, number: int, fetch: Fetch) -> tuple[Listed, Listing]:
    """Tuples that the snapshot declares in a range, without those that a publisher leaves out, and what it lists."""
    lower, upper = membership.bounds(number)
    if upper is None:
        return empty_listed(), Listing()
    listed = read_snapshot_part(fetch, membership.snapshot.parts[number], lower, membership.keys[0])
    if all(selectors.empty for selectors in membership.excluded):
        return listed, listing_of(listed.context[2], None)
    kept = ~named(membership.excluded, listed)
    return listed.where(kept), listing_of(listed.context[2], kept)


def _indexed(membership: Membership, number: int, fetch: Fetch) -> Indexed | FlawError | None:
    """Entries of the member index in a range; the flaw that they cannot be read for, None without an index."""
    if membership.index is None:
        return None
    try:
        return read_range(fetch, membership.index, *membership.bounds(number), membership.keys[1])
    except FlawError as flaw:
        return flaw


def _index_spots(membership: Membership, indexed: Indexed | FlawError | None, seen: Seen) -> list[Spot]:
    subject = membership.release.objects.member_index.digest
    if isinstance(indexed, FlawError):
        return [Spot(code=indexed.code, subject=subject, detail=indexed.detail)]
    wrong = 0 if indexed is None else mismatches(indexed, seen)
    return [Spot(code=ErrorCode.MEMBER_INDEX, subject=subject, count=wrong)] if wrong else []
