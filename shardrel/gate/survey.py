"""Which objects nothing that is retained leads to. Source: schemas/SPEC.md#retention

A listing only offers what may be deleted; what is named decides. Names are compared as digests, taken from the key by
one parser. Everything is read before anything is condemned, and what cannot be read stops it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from shardrel.canonical import json
from shardrel.errors import FormatError, IntegrityError, NotFoundError
from shardrel.gate.closure import Named, checkpoint_closure, gate_closure, root_closure, snapshot_closure
from shardrel.gate.head import broken
from shardrel.gate.history import Link, read_history, walk
from shardrel.gate.retention import Kept
from shardrel.gate.view import GateView
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.records.sweep import Condemned, SweepPlan
from shardrel.store.layout import gate_dataset, object_digest, object_key
from shardrel.store.objects import get_record
from shardrel.store.port import Store, Stored

# A single object is never larger than what one write may hold.
_LARGEST = 5 << 30
_MOST = 100_000
_COLLECTED = (Release, Snapshot, MemberIndex, RecordSchema, CheckpointManifest, SchemaEvolution)
_SCHEMAS = {str(kind.__struct_config__.tag): kind for kind in _COLLECTED}
_UNREADABLE = (NotFoundError, IntegrityError, FormatError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What may be deleted at one state of the gate.

    Attributes:
        objects: At most 100,000, by digest.
        orphans: Whether some of them might be written again by a running job.
        roots: Candidates that leave the state with them.
        snapshots: Declared, not published and not seen so by the plan before this one; they stay.
        waiting: What keeps more from being looked at: publications, runs, other datasets of the store.
    """

    objects: tuple[Condemned, ...] = ()
    orphans: bool = False
    roots: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(slots=True)
class Survey:
    """Reads of one collection; immutable records are read once, however often the gate moves meanwhile."""

    store: Store
    dataset: str
    _listed: frozenset[str] | None = None
    _links: list[Link] = field(default_factory=list)
    _closures: dict[str, Named] = field(default_factory=dict)
    _orphans: dict[str, "_Orphan | None"] = field(default_factory=dict)

    def history(self, view: GateView) -> Sequence[Link]:
        """The chain of transitions up to this state, oldest first.

        Raises:
            IntegrityError: ``gate.history-broken``.
        """
        if not self._links:
            self._links = read_history(self.store, view)
            return self._links
        newest = self._links[-1]
        links = walk(self.store, view, down_to=newest.transition.sequence)[::-1]
        if links[0].digest != newest.digest:
            raise broken("the history changed while it was read", sequence=newest.transition.sequence)
        self._links += links[1:]
        return self._links

    def find(self, view: GateView, kept: Kept) -> Found:
        """What nothing leads to, of what the first listing of this survey showed.

        Raises:
            NotFoundError, IntegrityError, FormatError: Something that is retained cannot be read.
            UnavailableError: The listing broke off, or the store does not answer.
        """
        listed = self._objects()
        others = sorted({name for key in self.store.list("gates/") if (name := gate_dataset(key))} - {self.dataset})
        waiting = [f"publication:{name}" for name in kept.open_publications] + [f"dataset:{name}" for name in others]
        if waiting:
            return Found(waiting=tuple(waiting))
        live = gate_closure(self.store, view.body, self.history(view))
        for root in kept.roots:
            live |= self._closure(root)
        gone = self._retired(kept.retired)
        release = {digest: version for digest, version in gone.items() if digest in listed and digest not in live}
        if kept.open_runs:
            waiting = [f"run:{name}" for name in kept.open_runs]
            return self._found(view, kept, release, orphans=[], snapshots=(), waiting=waiting)
        for commit in kept.commits:
            live |= checkpoint_closure(self.store, commit)
        unnamed = [self._orphan(digest) for digest in sorted(listed - live.keys() - release.keys())]
        orphans, snapshots = self._without_new_snapshots(view, [one for one in unnamed if one is not None])
        return self._found(view, kept, release, orphans=orphans, snapshots=snapshots, waiting=[])

    def _objects(self) -> frozenset[str]:
        """Digests of all objects, listed once and before anything else is read."""
        if self._listed is None:
            keys = self.store.list("objects/sha256/")
            self._listed = frozenset(digest for key in keys if (digest := object_digest(key)))
        return self._listed

    def _closure(self, root: str) -> Named:
        if root not in self._closures:
            self._closures[root] = root_closure(self.store, root)
        return self._closures[root]

    def _retired(self, roots: Sequence[str]) -> Named:
        """What roots that may go lead to; a broken one leaves its objects to be found as orphans."""
        named: Named = {}
        for root in roots:
            try:
                named |= self._closure(root)
            except _UNREADABLE:
                continue
        return named

    def _found(
        self,
        view: GateView,
        kept: Kept,
        release: Named,
        *,
        orphans: "Sequence[_Orphan]",
        snapshots: tuple[str, ...],
        waiting: Sequence[str],
    ) -> Found:
        objects = [Condemned(digest=one.digest, version=one.version) for one in orphans]
        for digest, version in release.items():
            exact = version or self._version(digest)
            if exact is not None:
                objects.append(Condemned(digest=digest, version=exact))
        objects.sort(key=lambda one: one.digest)
        names = {one.digest for one in objects}
        candidates = view.body.candidates
        # A revoked root stays known; it is named again only where something of it is left to delete.
        roots = [root for root in kept.retired if candidates[root].state != "INVALID" or root in names]
        return Found(
            objects=tuple(objects[:_MOST]),
            orphans=bool(orphans),
            roots=tuple(roots),
            snapshots=snapshots,
            waiting=tuple(waiting),
        )

    def _version(self, digest: str) -> str | None:
        stored = self.store.read(object_key(digest), max_bytes=_LARGEST)
        return None if stored is None else stored.version

    def _orphan(self, digest: str) -> "_Orphan | None":
        """An object that no retained record names; None where it belongs to the gate, or is gone."""
        if digest not in self._orphans:
            stored = self.store.read(object_key(digest), max_bytes=_LARGEST)
            self._orphans[digest] = None if stored is None else _judge(digest, stored)
        return self._orphans[digest]

    def _without_new_snapshots(
        self, view: GateView, orphans: "Sequence[_Orphan]"
    ) -> "tuple[list[_Orphan], tuple[str, ...]]":
        """Leave out snapshots that nobody had the time to publish, with what they name."""
        plan = view.body.retention.plan
        before = () if plan is None else get_record(self.store, plan, SweepPlan).snapshots
        fresh = tuple(one.digest for one in orphans if one.snapshot and one.digest not in before)
        named: set[str] = set()
        for digest in fresh:
            try:
                named |= snapshot_closure(self.store, digest).keys()
            except _UNREADABLE:
                named.add(digest)
        return [one for one in orphans if one.digest not in named], fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orphan:
    digest: str
    version: str
    snapshot: bool


def _judge(digest: str, stored: Stored) -> _Orphan | None:
    """Transitions that lost, policies, log chunks and plans are small, and a writer may be about to name one: they stay."""
    kind = _kind(stored.data)
    if kind is None:
        return None
    return _Orphan(digest=digest, version=stored.version, snapshot=kind == _SNAPSHOT)


_SNAPSHOT = str(Snapshot.__struct_config__.tag)
_BYTES = "bytes"


def _kind(data: bytes) -> str | None:
    """The schema of a record that retention may collect, ``bytes`` for what is no record; None for other records."""
    if not data.startswith(b"{") or len(data) > json.MAX_RECORD_BYTES:
        return _BYTES
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _BYTES
    schema = found.get("schema")
    return schema if isinstance(schema, str) and schema in _SCHEMAS else None
