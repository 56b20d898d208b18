"""snapshot: declare the membership of a dataset from its sources. Source: schemas/SPEC.md#snapshot."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.mapping import Mapping, no_columns
from publisher.member_index import last_sample_id
from publisher.members import MemberBatch, MemberReader, read_members
from publisher.named import Mask, named_members, named_texts
from publisher.parallel import in_order
from publisher.parts import cut_parts, part_bytes
from publisher.spill import SortedRuns, first_twin
from publisher.splits import SplitCounter
from shardrel.canonical.schema import schema_digest
from shardrel.canonical.sha import Bytes32
from shardrel.digest import Digest, raw_digest, to_digest
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError
from shardrel.gate.fences import FenceSelectors
from shardrel.membership.columns import FIELDS, fixed_digests, from_table
from shardrel.membership.merkle import MerkleStream
from shardrel.membership.tuples import MemberSet, member_leaves
from shardrel.records.descriptor import PARQUET, Descriptor
from shardrel.records.encryption import Encryption
from shardrel.records.snapshot import Columns, Part, Snapshot
from shardrel.store.objects import put, put_record, unversioned
from shardrel.store.port import Store
from shardrel.trust.key_encryption import KeyEncryption, declaration, new_data_key, version_of
from shardrel.trust.release_keys import snapshot_place
from shardrel.trust.sealed_parts import PartsKey

MEMORY_BYTES = 64 * 1024 * 1024

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """What a snapshot declares beside its members.

    Attributes:
        dataset: The gate it belongs to.
        columns: Columns that become tuple fields; null where a default rule applies.
        token_column: Payload column that tells the tokens of a record; 0 without one.
        text_columns: Payload columns that benchmarks are screened in; None means every string column.
        tombstone_watermark, benchmark_fence: Up to where the logs are looked at.
        apply_tombstones: Leave out the members that the logs name, where they are refused otherwise.
        workers: Threads; they change nothing of the result.
        encrypt: Key-encryption key of the parts; None leaves them plain.
        memory_bytes: Sorted tuples that are kept in memory; more go to a temporary folder.
    """

    dataset: str
    columns: Columns = field(default_factory=no_columns)
    token_column: str | None = None
    text_columns: tuple[str, ...] | None = None
    tombstone_watermark: int = 0
    benchmark_fence: int = 0
    apply_tombstones: bool = False
    workers: int = 2
    encrypt: KeyEncryption | None = None
    memory_bytes: int = MEMORY_BYTES

    @property
    def mapping(self) -> Mapping:
        """How the columns are used."""
        return Mapping(columns=self.columns, token_column=self.token_column, text_columns=self.text_columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """A declared snapshot.

    Attributes:
        snapshot: Its digest, which names it.
        descriptor: Of the record in this store.
        records: Members.
        tokens: Tokens of all of them.
        record_schema: Digest of the record schema.
        left_out: Records that the logs name and that were left out.
    """

    snapshot: Digest
    descriptor: Descriptor
    records: int
    tokens: int
    record_schema: Digest
    left_out: int


def make_snapshot(
    store: Store,
    sources: Sequence[str],
    options: SnapshotOptions,
    *,
    tombstones: FenceSelectors,
    benchmarks: FenceSelectors,
    progress: Progress,
) -> SnapshotResult:
    """Read the sources twice over at most, sort their members, and declare them.

    Args:
        store: Where parts, record schema and snapshot are created.
        sources: Files, folders and globs.
        options: What is declared.
        tombstones: What the tombstone log names up to ``options.tombstone_watermark``.
        benchmarks: What the benchmark log names up to ``options.benchmark_fence``.
        progress: Called with the records read and, where known, all records.

    Raises:
        InvalidInputError: What reading the sources raises; ``input.duplicate-id`` with both files and rows;
            ``input.no-records``.
        RefusedError: ``tombstone.hit`` or ``benchmark.hit`` with both counts.

    Effects: Nothing is created before everything was checked; then the parts, the record schema, the snapshot. A
    crash leaves some of them, which are objects by digest and in nobody's way.

    Source: schemas/SPEC.md#snapshot
    """
    with tempfile.TemporaryDirectory(prefix="shardrel-snapshot-") as name, ThreadPoolExecutor(options.workers) as pool:
        folder = Path(name)
        # 1. list the files; 2. agree on one record schema
        reader = read_members(sources, options.mapping)
        # 3. stream every file; 5. screen it by the logs
        gathered = _gather(reader, options, tombstones, benchmarks, progress, pool, folder)
        # 4. sort by sample id, refuse duplicates
        parts_key = _parts_key(reader, options)
        encoded = _encode_parts(gathered, reader, pool, folder, parts_key)
        # 6. create the parts, the record schema, the snapshot
        return _create(store, reader, options, gathered, encoded, pool, parts_key)


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """Members that were read so far."""

    runs: SortedRuns
    splits: SplitCounter
    tombstone_hits: int = 0
    benchmark_hits: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedPart:
    """A part that waits in the temporary folder."""

    path: Path
    records: int
    last_sample_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """All parts, and what the leaves of their tuples come to."""

    parts: list[_EncodedPart]
    members: MemberSet
    tree: MerkleStream


def _parts_key(reader: MemberReader, options: SnapshotOptions) -> PartsKey | None:
    if options.encrypt is None:
        return None
    schema = schema_digest(reader.record_schema)
    place = snapshot_place(options.dataset, schema, version_of(options.encrypt))
    return PartsKey(data_key=new_data_key(options.encrypt, place), place=place)


def _gather(
    reader: MemberReader,
    options: SnapshotOptions,
    tombstones: FenceSelectors,
    benchmarks: FenceSelectors,
    progress: Progress,
    pool: Executor,
    folder: Path,
) -> _Gathered:
    gathered = _Gathered(runs=SortedRuns(folder, options.memory_bytes), splits=SplitCounter())
    read = 0
    for batch in reader.batches(pool):
        doomed = _named(batch, tombstones, options.text_columns)
        contaminated = _named(batch, benchmarks, options.text_columns)
        gathered.tombstone_hits += int(np.count_nonzero(doomed))
        gathered.benchmark_hits += int(np.count_nonzero(contaminated))
        named = doomed | contaminated
        gathered.left_out += int(np.count_nonzero(named))
        table, splits, tokens = _tuple_table(batch), batch.members.splits, batch.tokens
        if named.any():
            keep = pa.array(~named)
            table, splits, tokens = table.filter(keep), splits.filter(keep), tokens[~named]
        gathered.splits.add(splits, tokens)
        gathered.runs.append(table)
        read += len(batch.members)
        progress(read, reader.num_rows)
    _refuse_hits(gathered, options)
    if not gathered.splits.records:
        reason = (
            f"the logs name all {gathered.left_out} of the records" if gathered.left_out else "the sources are empty"
        )
        raise InvalidInputError(
            ErrorCode.INPUT_NO_RECORDS, f"{reason}: there is nothing to declare", left_out=gathered.left_out
        )
    return gathered


def _named(batch: MemberBatch, selectors: FenceSelectors, text_columns: tuple[str, ...] | None) -> Mask:
    return named_members(batch.members, selectors) | named_texts(batch.payload, text_columns, selectors)


def _tuple_table(batch: MemberBatch) -> Any:
    """Tuples of a batch, with where they come from."""
    count = len(batch.members)
    rows = np.arange(batch.first_row, batch.first_row + count, dtype=np.int64)
    files = pa.array(np.full(count, batch.file, np.int32))
    # What repeats stays in its dictionary while it waits to be sorted.
    columns = [*batch.members.strings, fixed_digests(batch.members.digests), files, pa.array(rows)]
    return pa.table(columns, names=[*FIELDS, "content_digest", "file", "row"])


def _refuse_hits(gathered: _Gathered, options: SnapshotOptions) -> None:
    if options.apply_tombstones or not gathered.left_out:
        return
    code = ErrorCode.TOMBSTONE_HIT if gathered.tombstone_hits else ErrorCode.BENCHMARK_HIT
    raise RefusedError(
        code,
        f"the logs name {gathered.left_out} of the records; leave them out of the sources, or say --apply-tombstones",
        tombstone_hits=gathered.tombstone_hits,
        benchmark_hits=gathered.benchmark_hits,
    )


def _encode_parts(
    gathered: _Gathered, reader: MemberReader, pool: Executor, folder: Path, parts_key: PartsKey | None
) -> _Encoded:
    schema = raw_digest(schema_digest(reader.record_schema))
    encoded = _Encoded(parts=[], members=MemberSet(gathered.splits.records), tree=MerkleStream())

    def encode(item: tuple[int, Any]) -> tuple[_EncodedPart, Bytes32]:
        number, table = item
        part = _encode_part(table, folder / f"part-{number:06d}", parts_key)
        return part, member_leaves(from_table(table.combine_chunks()), schema)

    for part, leaves in in_order(pool, encode, enumerate(cut_parts(_without_twins(gathered.runs, reader))), 1):
        encoded.parts.append(part)
        encoded.members.append(leaves)
        encoded.tree.append(leaves)
    return encoded


def _without_twins(runs: SortedRuns, reader: MemberReader) -> Iterator[Any]:
    for table in runs.ranges():
        twin = first_twin(table)
        if twin is not None:
            raise _duplicate(table, twin, reader)
        yield table


def _duplicate(table: Any, at: int, reader: MemberReader) -> InvalidInputError:
    places = sorted((table.column("file")[row].as_py(), table.column("row")[row].as_py()) for row in (at, at + 1))
    (first, first_row), (second, second_row) = [(str(reader.files[file].path), row) for file, row in places]
    return InvalidInputError(
        ErrorCode.INPUT_DUPLICATE_ID,
        f"{first}, row {first_row} and {second}, row {second_row} have the same sample id",
        path=first, row=first_row, other_path=second, other_row=second_row,
    )  # fmt: skip


def _encode_part(table: Any, path: Path, parts_key: PartsKey | None) -> _EncodedPart:
    path.write_bytes(part_bytes(table, parts_key))
    last = last_sample_id(table)
    if parts_key is not None:
        last = parts_key.sealed_border(last)
    return _EncodedPart(path=path, records=table.num_rows, last_sample_id=last)


def _create(
    store: Store,
    reader: MemberReader,
    options: SnapshotOptions,
    gathered: _Gathered,
    encoded: _Encoded,
    pool: Executor,
    parts_key: PartsKey | None,
) -> SnapshotResult:
    parts = tuple(in_order(pool, lambda part: _create_part(store, part), encoded.parts, options.workers))
    record_schema = unversioned(put_record(store, reader.record_schema))
    snapshot = Snapshot(
        dataset=options.dataset,
        tombstone_watermark=options.tombstone_watermark,
        benchmark_fence=options.benchmark_fence,
        record_schema=record_schema,
        parts=parts,
        member_set_digest=to_digest(encoded.members.digest()),
        block_roots=tuple(map(to_digest, encoded.tree.block_roots())),
        records=gathered.splits.records,
        tokens=gathered.splits.tokens,
        splits=gathered.splits.totals,
        columns=options.columns,
        token_column=options.token_column,
        text_columns=options.text_columns,
        encryption=_declared(options.encrypt, parts_key),
    )
    descriptor = put_record(store, snapshot)
    return SnapshotResult(
        snapshot=Digest(descriptor.digest),
        descriptor=descriptor,
        records=snapshot.records,
        tokens=snapshot.tokens,
        record_schema=Digest(record_schema.digest),
        left_out=gathered.left_out,
    )


def _declared(key: KeyEncryption | None, parts_key: PartsKey | None) -> Encryption | None:
    return None if key is None or parts_key is None else declaration(key, parts_key.data_key.record)


def _create_part(store: Store, part: _EncodedPart) -> Part:
    descriptor, _ = put(store, part.path.read_bytes(), PARQUET)
    return Part(object=unversioned(descriptor), records=part.records, last_sample_id=part.last_sample_id)
