"""Which objects nothing that is retained leads to. Source: schemas/SPEC.md#retention

A listing only offers what may be deleted; what is named decides. Names are compared as digests, taken from the key by
one parser. Everything is read before anything is condemned, and what cannot be read stops it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import msgspec

from shardrel.canonical import json
from shardrel.errors import FormatError, IntegrityError, NotFoundError
from shardrel.gate.closure import (
    Named,
    checkpoint_closure,
    gate_closure,
    installed_closure,
    root_closure,
    snapshot_closure,
)
from shardrel.gate.head import broken
from shardrel.gate.history import Link, read_history, walk
from shardrel.gate.retention import Commit, Kept
from shardrel.gate.unnamed import Found, Loose, sort_out
from shardrel.gate.view import GateView
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.records.sweep import SweepPlan, Unnamed
from shardrel.store.layout import gate_dataset, object_digest, object_key
from shardrel.store.objects import get_record
from shardrel.store.port import Looked, Store

# One request shows the kind of nearly every object: most records are smaller, and other bytes tell by the first one.
_FIRST = 64 << 10
_WORKERS = 16
_COLLECTED = (Release, Snapshot, MemberIndex, RecordSchema, CheckpointManifest, SchemaEvolution)
_SCHEMAS = {str(kind.__struct_config__.tag): kind for kind in _COLLECTED}
_UNREADABLE = (NotFoundError, IntegrityError, FormatError)


@dataclass(slots=True)
class Survey:
    """Reads of one collection; immutable records are read once, however often the gate moves meanwhile."""

    store: Store
    dataset: str
    _listed: frozenset[str] | None = None
    _links: list[Link] = field(default_factory=list)
    _closures: dict[str, Named] = field(default_factory=dict)
    _commits: dict[Commit, Named] = field(default_factory=dict)
    _installed: dict[tuple[str, int], Named] = field(default_factory=dict)
    _plans: dict[str, SweepPlan] = field(default_factory=dict)
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
        if others:
            held = tuple(root for root in kept.retired if root in listed)
            return Found(waiting=tuple(f"dataset:{name}" for name in others), held=held)
        live = self._live(view, kept)
        gone = self._retired(kept.retired)
        before = self._before(view)
        self._look_at([digest for digest in listed - live.keys() if digest not in before and digest not in gone])
        loose = [self._loose(digest, before, gone) for digest in sorted(listed - live.keys())]
        found = sort_out(view.body, kept, [one for one in loose if one is not None], self._fresh(loose))
        return replace(found, held=tuple(root for root in kept.retired if root in listed and root not in found.roots))

    def _live(self, view: GateView, kept: Kept) -> Named:
        """What is retained, with everything that it leads to; and what somebody has begun, as far as it can be read."""
        live = gate_closure(self.store, view.body, self.history(view))
        for root in kept.roots:
            live |= self._closure(root)
        for commit in kept.commits:
            if commit not in self._commits:
                self._commits[commit] = checkpoint_closure(self.store, commit)
            live |= self._commits[commit]
        for snapshot in kept.snapshots:
            live |= _as_far_as_it_reads(functools.partial(snapshot_closure, self.store, snapshot))
        for name, run in view.body.runs.items():
            generation = 0 if run.head is None else run.head.generation + 1
            live |= self._begun(name, generation)
        return live

    def plan(self, view: GateView) -> SweepPlan | None:
        """The newest plan, which lists what was found without a name and let be."""
        named = view.body.retention.plan
        if named is None:
            return None
        if named.digest not in self._plans:
            self._plans[named.digest] = get_record(self.store, named, SweepPlan)
        return self._plans[named.digest]

    def _before(self, view: GateView) -> dict[str, Unnamed]:
        plan = self.plan(view)
        return {} if plan is None else {one.digest: one for one in plan.unnamed}

    def _begun(self, run: str, generation: int) -> Named:
        """What an attempt has written whose commit record is installed; looked at once, as it only spares others work."""
        if (run, generation) not in self._installed:
            closure = functools.partial(installed_closure, self.store, run, generation)
            self._installed[run, generation] = _as_far_as_it_reads(closure)
        return self._installed[run, generation]

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

    def _retired(self, roots: Sequence[str]) -> "Mapping[str, _Gone]":
        """What roots that may go lead to; a broken one leaves its objects to be found as orphans."""
        gone: dict[str, _Gone] = {}
        for root in roots:
            for digest, version in _as_far_as_it_reads(functools.partial(self._closure, root)).items():
                known = gone.get(digest, _Gone(None, frozenset()))
                gone[digest] = _Gone(known.version or version, known.roots | {root})
        return gone

    def _loose(self, digest: str, before: Mapping[str, Unnamed], gone: "Mapping[str, _Gone]") -> Loose | None:
        """An object that nothing retained leads to; None where it belongs to the gate, or is gone."""
        known, released = before.get(digest), gone.get(digest)
        roots = frozenset[str]() if released is None else released.roots
        if known is not None:
            return Loose(digest, known.version, known.snapshot, roots, known.release or bool(roots), known.since)
        if released is not None:
            version = released.version or self._version(digest)
            return None if version is None else Loose(digest, version, False, roots, True, None)
        orphan = self._orphans[digest]
        return None if orphan is None else Loose(digest, orphan.version, orphan.snapshot, roots, False, None)

    def _version(self, digest: str) -> str | None:
        looked = self.store.look(object_key(digest))
        return None if looked is None else looked.version

    def _look_at(self, digests: Sequence[str]) -> None:
        """Judge objects that no record names, many at a time."""
        new = [digest for digest in digests if digest not in self._orphans]
        with ThreadPoolExecutor(_WORKERS) as pool:
            self._orphans |= zip(new, pool.map(functools.partial(_orphan, self.store), new), strict=True)

    def _fresh(self, loose: Sequence[Loose | None]) -> frozenset[str]:
        """Snapshots that nobody had the time to publish, with what they name."""
        fresh: set[str] = set()
        for one in loose:
            if one is not None and one.snapshot and one.since is None:
                fresh |= {one.digest, *_as_far_as_it_reads(functools.partial(snapshot_closure, self.store, one.digest))}
        return frozenset(fresh)


def _as_far_as_it_reads(closure: Callable[[], Named]) -> Named:
    try:
        return closure()
    except _UNREADABLE:
        return {}


@dataclass(frozen=True, slots=True)
class _Gone:
    """An object of roots that may go; its version where a record tells it."""

    version: str | None
    roots: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orphan:
    version: str
    snapshot: bool


def _orphan(store: Store, digest: str) -> _Orphan | None:
    """An object that no retained record names; None where it belongs to the gate, or is gone.

    Transitions that lost, policies, log chunks and plans are small, and a writer may be about to name one: they stay.
    """
    looked = store.look(object_key(digest), first=_FIRST)
    data = None if looked is None else _telling(store, digest, looked)
    kind = None if data is None else _kind(data)
    return None if looked is None or kind is None else _Orphan(version=looked.version, snapshot=kind == _SNAPSHOT)


def _telling(store: Store, digest: str, looked: Looked) -> bytes | None:
    """All bytes of what may be a record, the first ones of anything else; None where it is gone meanwhile."""
    if len(looked.start) == looked.size or not _may_be_record(looked.start, looked.size):
        return looked.start
    stored = store.read(object_key(digest), max_bytes=looked.size, version=looked.version)
    return None if stored is None else stored.data


def _may_be_record(start: bytes, size: int) -> bool:
    return start.startswith(b"{") and size <= json.MAX_RECORD_BYTES


_SNAPSHOT = str(Snapshot.__struct_config__.tag)
_BYTES = "bytes"


def _kind(data: bytes) -> str | None:
    """The schema of a record that retention may collect, ``bytes`` for what is no record; None for other records."""
    if not _may_be_record(data, len(data)):
        return _BYTES
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _BYTES
    schema = found.get("schema")
    return schema if isinstance(schema, str) and schema in _SCHEMAS else None
