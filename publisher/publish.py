"""publish: from a declared snapshot and its records to a staged release. Source: schemas/SPEC.md#publish."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from publisher.arrange import Range, differences, ranges
from publisher.declared import Declared, read_declared
from publisher.evolution import attest, compare_with_previous
from publisher.located import at_row
from publisher.mapping import Mapping
from publisher.members import MemberBatch, MemberReader, read_members
from publisher.misfits import misfits, other_columns, told
from publisher.named import Selectors, named_members
from publisher.options import PublishOptions, PublishResult
from publisher.parallel import in_order, threads
from publisher.prepare import prepare
from publisher.provenance import Build, has_provenance, nameless, provenance
from publisher.root import content_digest
from publisher.stage import Prepared, Staged, rows_of, stage
from publisher.write import Progress, plan, shard_numbers, write
from shardrel.canonical.packed import packed_fields
from shardrel.canonical.sha import expect_rows
from shardrel.digest import Digest, to_digest
from shardrel.errors import (
    ErrorCode,
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    TrustError,
)
from shardrel.gate.attestations import attach
from shardrel.gate.call import Call
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.membership.columns import Members
from shardrel.membership.diff import Difference
from shardrel.membership.tuples import MemberSet
from shardrel.records.release import Release
from shardrel.records.snapshot import Snapshot
from shardrel.store.objects import put_record
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.signer import Signer

# What a plain re-run would meet again. A store that does not answer, an unknown outcome, a lost race and a killed
# process are not of this kind.
_FINAL = (InvalidInputError, RefusedError, IntegrityError, FormatError, NotFoundError, TrustError)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a publication needs of its surroundings.

    Attributes:
        signer: The publisher's key.
        others: Keys of more publishers, where the policy asks for several.
        pinned_by: Releasers, who sign the transitions where too few publishers are here.
        now: The time as RFC 3339 in UTC.
        progress: Told how many of how many records are written.
        unlocked: Keys of a snapshot that is encrypted.
    """

    signer: Signer
    now: Callable[[], str]
    progress: Progress
    unlocked: Unlocked = field(default_factory=Unlocked)
    others: Sequence[Signer] = ()
    pinned_by: Sequence[Signer] = ()

    @property
    def signers(self) -> Sequence[Signer]:
        """All publishers' keys."""
        return (self.signer, *self.others)


def publish(
    store: Store,
    snapshot_digest: str,
    sources: Sequence[str],
    options: PublishOptions,
    *,
    fences: Selectors,
    world: World,
) -> PublishResult:
    """Publish a snapshot; interrupted and called again, it goes on and ends at the same root.

    Args:
        store: Where the gate, the snapshot and the release are.
        snapshot_digest: Of the declared snapshot.
        sources: Files, folders and globs that hold its records.
        options: Parameters; workers and memory change nothing of the result.
        fences: What both logs name up to the snapshot's watermarks; exactly that is left out.
        world: Key, clock and progress.

    Raises:
        RefusedError: ``source.snapshot-mismatch`` with the counts ``missing``, ``extra`` and ``changed``, and
            where the first few of each are.
        InvalidInputError: ``input.no-records`` when nothing is left; and what reading the sources raises.
        ShardrelError: What the store and the gate raise.

    Effects: in this order a pin in the gate, the report of schema evolution, shards and parts of the member
        index, each after its wrapped key where it is encrypted, the member index, the root manifest, the
        attestations, the end of the pin, which makes the root STAGED. Objects are written once under their
        digests; a crash leaves some of them and the pin, a refusal some of them alone.

    Source: schemas/SPEC.md#publish
    """
    started = world.now()
    # 1. Read what was declared.
    declared = read_declared(store, snapshot_digest, world.unlocked)
    dataset = declared.snapshot.dataset
    packed_fields(declared.record_schema, options.packed)  # refused before anything is pinned
    publication = options.publication(snapshot_digest)
    # 2. Pin it in the gate, before the first byte is written.
    with _pinned(store, dataset, publication, snapshot_digest, world) as pin:
        compared = compare_with_previous(store, declared, options)
        # 3.-5. Read and compare the records; write shards and member index.
        made = _make(store, sources, declared, fences, options, world)
        # 6. Write the root manifest.
        if compared is not None:
            made = replace(made, release=structs.replace(made.release, schema_evolution=compared.object))
        root = Digest(put_record(store, made.release).digest)
        # 7. Attach what the schema was compared with, and the provenance.
        if compared is not None:
            attest(store, root, dataset, compared, world.signers)
        build = Build(
            snapshot=snapshot_digest,
            parameters=options.parameters,
            sources=nameless(made.files) if options.encrypt_index else made.files,
            publication=publication,
            started_on=started,
            finished_on=world.now(),
        )
        _attest(store, root, dataset, build, world.signers)
    # 8. End the publication: the gate knows the root as STAGED.
    state = end_publication(store, dataset, publication, root, _call(world), pin=pin)
    totals = made.release.totals
    return PublishResult(
        root=root,
        content_digest=content_digest(made.release),
        state=state or "STAGED",
        shards=totals.shards,
        records=totals.records,
        excluded=made.excluded,
        stored_bytes=totals.stored_bytes,
        already_present=made.already_present,
        evolution=None if compared is None else compared.report,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    release: Release
    files: Sequence[tuple[str, str]]
    excluded: int
    already_present: int


def _make(
    store: Store,
    sources: Sequence[str],
    declared: Declared,
    fences: Selectors,
    options: PublishOptions,
    world: World,
) -> _Made:
    reader = _open(sources, declared)
    expect_rows(2 * declared.snapshot.records)
    with tempfile.TemporaryDirectory(prefix="shardrel-publish-") as folder, threads(options.workers) as pool:
        digests = pool.submit(reader.digests)
        # 3. Read the records, and leave out what the logs name.
        staged, excluded = _read(reader, declared, fences, options, Path(folder), pool)
        # 4. Put the members into canonical order, and compare them with the snapshot.
        numbered = pool.submit(shard_numbers, staged, options)
        ordered = tuple(ranges(staged, declared.borders, pool))
        whole = pool.submit(_is_all_of_it, staged, ordered, declared.snapshot)
        planned = pool.submit(plan, ordered, numbered.result())

        def approve() -> None:
            if not whole.result():
                _compare(staged, ordered, declared, fences, reader, pool)

        # 5. Write shards and member index, and make the root manifest of them.
        release, already_present = write(
            store, staged, ordered, planned, declared, options, pool, world.progress, approve
        )
        files = [(file.relative, digest) for file, digest in zip(reader.files, digests.result(), strict=True)]
    return _Made(release=release, files=files, excluded=excluded, already_present=already_present)


@contextmanager
def _pinned(store: Store, dataset: str, publication: str, snapshot: str, world: World) -> Iterator[int]:
    """Hold the pin, by the sequence at which it began.

    What another run would meet again ends the publication, whichever run began it. Anything else leaves the pin to the
    run that goes on.
    """
    pinned = begin_publication(store, dataset, publication, snapshot, _call(world))
    try:
        yield pinned.sequence
    except _FINAL:
        with suppress(NotFoundError):  # another process of this publication was refused first
            end_publication(store, dataset, publication, None, _call(world), pin=pinned.sequence)
        raise


def _call(world: World) -> Call:
    # The pin is found by its name, so a re-run needs no operation id of the interrupted one.
    return Call(signers=world.pinned_by or world.signers, recorded_at=world.now(), operation_id=None, pending=None)


def _open(sources: Sequence[str], declared: Declared) -> MemberReader:
    snapshot = declared.snapshot
    mapping = Mapping(columns=snapshot.columns, token_column=snapshot.token_column, text_columns=snapshot.text_columns)
    reader = read_members(sources, mapping)
    if reader.record_schema != declared.record_schema:
        raise RefusedError(
            ErrorCode.SOURCE_MISMATCH,
            "the source has other columns than the snapshot declares; give the one that it was made of, or declare anew",
            columns=other_columns(declared.record_schema, reader.record_schema),
        )
    return reader


def _read(
    reader: MemberReader,
    declared: Declared,
    fences: Selectors,
    options: PublishOptions,
    folder: Path,
    pool: Executor,
) -> tuple[Staged, int]:
    excluded = 0
    packed = packed_fields(declared.record_schema, options.packed)

    def prepared_of(batch: MemberBatch) -> tuple[Prepared, int]:
        try:
            return prepare(batch, declared, fences, packed)
        except InvalidInputError as err:
            raise at_row(err, reader.files[batch.file].path, batch.first_row) from err

    def kept() -> Iterator[Prepared]:
        nonlocal excluded
        for prepared, left_out in in_order(pool, prepared_of, reader.batches(pool), 2 * options.workers):
            excluded += left_out
            yield prepared

    staged = stage(kept(), folder, options.memory_bytes, declared.snapshot.records)
    return staged, excluded


def _compare(
    staged: Staged,
    ordered: Sequence[Range],
    declared: Declared,
    fences: Selectors,
    reader: MemberReader,
    pool: Executor,
) -> None:
    def due(part: int) -> Members:
        members = declared.members(part)
        named = named_members(members, fences)
        return members.filter(~named) if named.any() else members

    found = tuple(differences(staged, ordered, due, pool))
    if total := sum(found, Difference()):
        raise RefusedError(
            ErrorCode.SOURCE_MISMATCH,
            "the source does not hold what the snapshot declares, and nothing was published; give the one that it was made of, or declare anew",
            missing=total.missing,
            extra=total.extra,
            changed=total.changed,
            **told(misfits(staged, ordered, found, due), reader, digests=declared.snapshot.encryption is None),
        )
    if not staged.records:
        raise InvalidInputError(ErrorCode.INPUT_NO_RECORDS, "nothing is left to publish: a release has a record")


def _is_all_of_it(staged: Staged, ordered: Sequence[Range], snapshot: Snapshot) -> bool:
    """Whether the leaves are those that the snapshot was made of; then its parts need not be read."""
    members = MemberSet(staged.records)
    for part in ordered:
        members.append(rows_of(staged.leaves, part.records))
    return to_digest(members.digest()) == snapshot.member_set_digest


def _attest(store: Store, root: Digest, dataset: str, build: Build, signers: Sequence[Signer]) -> None:
    """Attach a provenance by each key of which there is none yet."""
    for signer in signers:
        if not has_provenance(store, root, signer):
            attach(store, root, provenance(root, dataset, build, signer))
