"""Everything that a record leads to, by digest. Source: schemas/SPEC.md#retention

What cannot be read raises: whoever deletes has to know all that is named.
"""

from collections.abc import Iterable

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, IntegrityError, NotFoundError
from shardrel.gate.fences import read_chain
from shardrel.gate.history import Link
from shardrel.gate.retention import Commit
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord
from shardrel.records.descriptor import Descriptor
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.gate import Fence, FenceKind, GateBody
from shardrel.records.release import Release
from shardrel.records.snapshot import MemberIndex, Part, Snapshot
from shardrel.records.transition import Init, Retire, SetPolicy
from shardrel.store.layout import commit_key
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store

Named = dict[str, str | None]
"""Digests of objects, each with the version that names its bytes, where a record tells it."""


def root_closure(store: Store, root: str) -> Named:
    """A root manifest, its shards, its snapshot, its member index, and what its schema was compared with.

    Raises:
        NotFoundError, IntegrityError, FormatError: One of them is not what its digest says.
    """
    release = json.decode(get_by_digest(store, root), Release)
    objects = release.objects
    index = get_record(store, objects.member_index, MemberIndex)
    named: Named = {root: None, **{shard.digest: shard.object_version for shard in release.shards}}
    named |= _named([objects.snapshot, objects.record_schema, objects.member_index], index.parts)
    if release.schema_evolution is not None:
        named |= _compared(store, release.schema_evolution)
    return named | snapshot_closure(store, objects.snapshot.digest)


def _compared(store: Store, report: Descriptor) -> Named:
    """A report of schema evolution, and what a verifier needs to make it again: two records, no shards."""
    previous = get_record(store, report, SchemaEvolution).previous
    release = json.decode(get_by_digest(store, previous), Release)
    return {previous: None} | _named([report, release.objects.record_schema], ())


def snapshot_closure(store: Store, snapshot: str) -> Named:
    """A snapshot, its parts and its record schema.

    Raises:
        NotFoundError, IntegrityError, FormatError: As ``root_closure``.
    """
    record = json.decode(get_by_digest(store, snapshot), Snapshot)
    return {snapshot: None} | _named([record.record_schema], record.parts)


def checkpoint_closure(store: Store, commit: Commit) -> Named:
    """The manifest that an admitted commit record names, and its tensors.

    Raises:
        NotFoundError, IntegrityError, FormatError: As ``root_closure``.
    """
    key = commit_key(commit.run, commit.generation)
    stored = store.read(key, max_bytes=json.MAX_RECORD_BYTES)
    if stored is None:
        raise NotFoundError(ErrorCode.STORAGE_ABSENT, "an admitted commit record is absent", key=key)
    if digest_of(stored.data) != commit.digest:
        raise IntegrityError(ErrorCode.STORAGE_DIGEST, "an admitted commit record has other bytes", key=key)
    return manifest_closure(store, json.decode(stored.data, CommitRecord).manifest)


def installed_closure(store: Store, run: str, generation: int) -> Named:
    """What a commit record leads to that no admission names yet; nothing where none is installed.

    Raises:
        NotFoundError, IntegrityError, FormatError: As ``root_closure``.
    """
    stored = store.read(commit_key(run, generation), max_bytes=json.MAX_RECORD_BYTES)
    return {} if stored is None else manifest_closure(store, json.decode(stored.data, CommitRecord).manifest)


def manifest_closure(store: Store, described: Descriptor) -> Named:
    """The manifest of a checkpoint and its tensors.

    Raises:
        NotFoundError, IntegrityError, FormatError: As ``root_closure``.
    """
    manifest = get_record(store, described, CheckpointManifest)
    return _named([described, *(region.object for tensor in manifest.tensors for region in tensor.regions)], ())


def gate_closure(store: Store, body: GateBody, history: Iterable[Link]) -> Named:
    """What the gate itself rests on: its transitions, policies, fence logs, staged entries and sweep plans.

    Raises:
        NotFoundError, IntegrityError, FormatError: As ``root_closure``.
    """
    named: Named = {}
    for link in history:
        named[link.digest] = None
        request = link.transition.request
        if isinstance(request, Init | SetPolicy):
            named[request.policy.digest] = None
        if isinstance(request, Retire):
            named[request.plan.digest] = None
    logs: tuple[tuple[FenceKind, Fence], ...] = (("tombstones", body.tombstones), ("benchmarks", body.benchmarks))
    for kind, fence in logs:
        newest, last = fence.log, fence.watermark
        if fence.staged is not None:
            newest, last = fence.staged.log, fence.staged.watermark
        named |= {log.digest: None for log in read_chain(store, newest, kind, last)}
    return named


def _named(descriptors: Iterable[Descriptor], parts: Iterable[Part]) -> Named:
    return {d.digest: d.object_version for d in (*descriptors, *(part.object for part in parts))}
