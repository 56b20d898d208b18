"""affected: which roots hold a member that entries name, and who uses them. Source: schemas/SPEC.md#affected

Nothing is judged and nothing is signed. Releases share parts and shards; each is read once.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from shardrel.canonical import json
from shardrel.errors import ErrorCode, NotFoundError, ShardrelError, UnavailableError
from shardrel.gate.history import read_history
from shardrel.gate.past import past_of
from shardrel.gate.view import GateView
from shardrel.records.release import Release, Shard
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import Part, Snapshot
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.sealed_parts import PartsKey
from verifier import fences
from verifier.encryption import open_snapshot
from verifier.fences import Selectors
from verifier.logs import Logs, fences_of, read_logs
from verifier.parts import fetched, read_snapshot_part
from verifier.pool import in_order
from verifier.shard import Scan, screen
from verifier.structure import FlawError
from verifier.users import Users, known_roots, users_of

Progress = Callable[[int, int], None]
Counts = dict[str, int]
Item = TypeVar("Item")
_HITS = (ErrorCode.TOMBSTONE_HIT, ErrorCode.BENCHMARK_HIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """The answer.

    Attributes:
        roots: Roots that hold a named member, with how many.
        states: State of every root that was asked about; None where the gate has let go of it.
        unreadable: Roots about which nothing can be said, or not all, with the code.
        gone: Roots that the gate has let go of and that are not there any more.
        read, passed_over: Distinct parts and shards.
    """

    roots: Counts
    states: dict[str, str | None]
    users: Users
    unreadable: dict[str, str]
    gone: tuple[str, ...]
    read: int
    passed_over: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What is read of one root before its members are."""

    root: str
    release: Release
    snapshot: Snapshot
    parts_key: PartsKey | None
    left_out: tuple[Selectors, Selectors]


@dataclass(slots=True)
class _Shared:
    """A part that is in the snapshots of some roots."""

    part: Part
    lower: str | None
    parts_key: PartsKey | None
    users: list[_Opened] = field(default_factory=list)


@dataclass(slots=True)
class _Search:
    """One question on its way to an answer."""

    store: Store
    selectors: Selectors
    unlocked: Unlocked
    workers: int
    progress: Progress
    counts: Counts = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    read: int = 0
    passed_over: int = 0

    def add(self, found: Counts, roots: Iterable[str], code: str | None) -> None:
        """Take in what one object holds of each root, or why that cannot be said."""
        for root, count in found.items():
            self.counts[root] = self.counts.get(root, 0) + count
        if code is not None:
            self.unreadable |= {root: code for root in roots if root not in self.unreadable}


def find_affected(
    store: Store, gate: GateView, selectors: Selectors, *, unlocked: Unlocked, workers: int, progress: Progress
) -> Affected:
    """Look for named members in every root that the gate's state or history names.

    Args:
        store: Where everything is.
        gate: Whose roots.
        selectors: What entries name; they need not be in a log.
        unlocked: Keys of encrypted releases.
        workers: Threads.
        progress: Told (objects done, objects in all).

    Raises:
        IntegrityError: ``gate.history-broken``.
        UnavailableError: The store does not answer.

    Ranks: none. Effects: none.
    """
    past = past_of(link.transition for link in read_history(store, gate))
    states = known_roots(gate.body, past)
    search = _Search(store, selectors, unlocked, workers, progress)
    opened = _open_all(search, states, read_logs(store, fences_of(gate.body)))
    if selectors.by_text:
        _search_shards(search, opened)
    elif not selectors.empty:
        _search_parts(search, opened)
    return Affected(
        roots=dict(sorted(search.counts.items())),
        states=states,
        users=users_of(gate.body, past, search.counts),
        unreadable=dict(sorted(search.unreadable.items())),
        gone=tuple(search.gone),
        read=search.read,
        passed_over=search.passed_over,
    )


def count_named(
    store: Store, gate: GateView, selectors: Selectors, roots: Iterable[str], *, unlocked: Unlocked, most: int
) -> Counts | None:
    """How many members of each of some roots are named, where few objects tell.

    Args:
        store: Where everything is.
        gate: Whose roots.
        selectors: What entries name.
        roots: Roots that the gate knows.
        unlocked: Keys of encrypted releases.
        most: Parts of snapshots that may be read.

    Returns:
        None where more would have to be read, texts are named, or a root cannot be read.

    Raises:
        UnavailableError: The store does not answer.
    """
    search = _Search(store, selectors, unlocked, 1, lambda done, total: None)
    states: dict[str, str | None] = {root: gate.body.candidates[root].state for root in roots}
    if selectors.by_text or selectors.empty:
        return None
    near = _near(search, _open_all(search, states, read_logs(store, fences_of(gate.body))))
    if search.unreadable or len(near) > most:
        return None
    _each(search, near, lambda one: _look(search, one), lambda one: [user.root for user in one.users])
    return None if search.unreadable else {root: search.counts.get(root, 0) for root in states}


def _open_all(search: _Search, states: dict[str, str | None], logs: Logs) -> list[_Opened]:
    found: list[_Opened] = []
    left_out: dict[tuple[int, int], tuple[Selectors, Selectors]] = {}
    for root, state in states.items():
        try:
            release = json.decode(get_by_digest(search.store, root), Release)
            at = release.tombstone_watermark, release.benchmark_fence
            if at not in left_out:
                left_out[at] = fences.left_out(logs, *at)
            found.append(_open(search, root, release, left_out[at]))
        except UnavailableError:
            raise
        except NotFoundError as err:
            # What retention lets go of is deleted; anything else has to be there.
            if state is None:
                search.gone.append(root)
            else:
                search.add({}, [root], err.code.value)
        except (ShardrelError, FlawError) as err:
            search.add({}, [root], err.code.value)
    return found


def _open(search: _Search, root: str, release: Release, left_out: tuple[Selectors, Selectors]) -> _Opened:
    if search.selectors.by_text:
        search.unlocked.check(release.encryption)
    snapshot = get_record(search.store, release.objects.snapshot, Snapshot)
    search.unlocked.check(snapshot.encryption)
    snapshot, key = open_snapshot(snapshot, search.unlocked)
    return _Opened(root=root, release=release, snapshot=snapshot, parts_key=key, left_out=left_out)


def _search_parts(search: _Search, opened: Sequence[_Opened]) -> None:
    near = _near(search, opened)
    _each(search, near, lambda one: _look(search, one), lambda one: [user.root for user in one.users])


def _near(search: _Search, opened: Sequence[_Opened]) -> list[_Shared]:
    """Parts in whose range anything may be named."""
    shared: dict[str, _Shared] = {}
    for one in opened:
        lower = None
        for part in one.snapshot.parts:
            shared.setdefault(part.object.digest, _Shared(part, lower, one.parts_key)).users.append(one)
            lower = part.last_sample_id
    near = [one for one in shared.values() if fences.in_range(search.selectors, one.lower, one.part.last_sample_id)]
    search.passed_over = len(shared) - len(near)
    return near


def _look(search: _Search, shared: _Shared) -> Counts:
    listed = read_snapshot_part(partial(fetched, search.store), shared.part, shared.lower, shared.parts_key)
    named = fences.named((search.selectors,), listed)
    if not named.any():
        return {}
    hits = listed.where(named)
    by_logs: dict[int, int] = {}
    for user in shared.users:
        key = id(user.left_out)
        if key not in by_logs:
            by_logs[key] = int(np.count_nonzero(~fences.named(user.left_out, hits)))
    return {user.root: count for user in shared.users if (count := by_logs[id(user.left_out)])}


def _search_shards(search: _Search, opened: Sequence[_Opened]) -> None:
    shards: dict[tuple[object, ...], tuple[_Opened, Shard]] = {}
    users: dict[tuple[object, ...], list[str]] = {}
    for one in opened:
        for shard in one.release.shards:
            # The same bytes are another text where other columns are screened.
            key = (shard.digest, one.release.record_schema, one.release.text_columns)
            shards.setdefault(key, (one, shard))
            users.setdefault(key, []).append(one.root)

    def look(key: tuple[object, ...]) -> Counts:
        count = _scan(search, *shards[key])
        return dict.fromkeys(users[key], count) if count else {}

    _each(search, list(shards), look, lambda key: users[key])


def _scan(search: _Search, opened: _Opened, shard: Shard) -> int:
    schema = get_record(search.store, opened.release.objects.record_schema, RecordSchema)
    scan = Scan(
        store=search.store,
        release=opened.release,
        schema=schema,
        tombstones=fences.NOTHING,
        benchmarks=search.selectors,
        unlocked=search.unlocked,
    )
    spots = screen(scan, shard)
    for spot in spots:
        if spot.code not in _HITS:
            raise FlawError(spot.code, spot.detail or "the shard is not what the root says")
    return sum(spot.count for spot in spots)


def _each(
    search: _Search, items: Sequence[Item], look: Callable[[Item], Counts], roots: Callable[[Item], list[str]]
) -> None:
    """Look at each object; what cannot be read is noted for all roots that it is part of."""

    def work(item: Item) -> tuple[Counts, str | None]:
        try:
            return look(item), None
        except UnavailableError:
            raise
        except (ShardrelError, FlawError) as err:
            return {}, err.code.value

    with ThreadPoolExecutor(search.workers) as pool:
        results = in_order(pool, work, items, 2 * search.workers)
        for done, (item, (found, code)) in enumerate(zip(items, results, strict=True), start=1):
            search.add(found, roots(item), code)
            search.read += 1
            search.progress(done, len(items))
