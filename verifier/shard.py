"""One shard: read at its exact version, checked, decoded and digested. Source: schemas/SPEC.md#verification (3, 7)"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.json import MAX_INTEGER
from shardrel.canonical.sha import Bytes32
from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.descriptor import Descriptor
from shardrel.records.release import Release, Shard
from shardrel.records.schema import RecordSchema, StringType
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from verifier import leaves as tuples
from verifier.arrays import joined_context
from verifier.decode import SLACK_BYTES, batches
from verifier.encryption import shard_lock
from verifier.fences import Selectors, text_hits, tuple_hits
from verifier.leaves import plain
from verifier.packed import packed_fields, unpacked
from verifier.parameters import departures
from verifier.parts import MAX_ID_BYTES, fetched
from verifier.physical import fits, shard_schema
from verifier.rows import content_digests
from verifier.runs import Run
from verifier.schema import content_type
from verifier.sharding import strays
from verifier.structure import FlawError, limits, open_file
from verifier.tally import Spot
from verifier.utf8 import valid_text

MAX_FIELD_BYTES = 4096
# What the four tuple columns of a record may take, lengths included.
_TUPLE_BYTES = MAX_ID_BYTES + 3 * MAX_FIELD_BYTES + 16
_AS_FINDING = {
    ErrorCode.INPUT_UTF8: ErrorCode.RECORD_UTF8,
    ErrorCode.INPUT_NOT_NULL: ErrorCode.RECORD_SCHEMA,
}
_TUPLE_COLUMNS = 4
# Whoever wrote the manifest chose what it declares; these bound what it can ask for.
MAX_STORED = 2 << 30
MAX_LOGICAL = 4 << 30
MAX_RECORDS = 1 << 24
MAX_IDS = 1 << 30
_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What every shard of a release is examined with.

    Attributes:
        tombstones, benchmarks: Selectors of the entries whose hits are to be counted.
        unlocked: Data keys of an encrypted release.
    """

    store: Store
    release: Release
    schema: RecordSchema
    tombstones: Selectors
    benchmarks: Selectors
    unlocked: Unlocked = field(default_factory=Unlocked)

    @property
    def text_columns(self) -> list[int]:
        """Positions, among the payload columns, of those whose text is screened."""
        declared = self.release.text_columns
        fields = enumerate(self.schema.fields)
        return [i for i, f in fields if isinstance(f.type, StringType) and (declared is None or f.name in declared)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What one shard holds.

    Attributes:
        splits: Records and tokens by split.
        spots: What is wrong with it.
        run: Its members in canonical order; None when it could not be read to its end.
    """

    splits: dict[str, tuple[int, int]]
    spots: list[Spot]
    run: Run | None


@dataclass(slots=True)
class _Seen:
    """Grows batch by batch."""

    ids: list[Any] = field(default_factory=list)
    context: list[tuple[Any, Any, Any]] = field(default_factory=list)
    content: list[Bytes32] = field(default_factory=list)
    leaves: list[Bytes32] = field(default_factory=list)
    tokens: int = 0
    id_bytes: int = 0
    logical_bytes: int = 0
    rows: int = 0
    splits: dict[str, tuple[int, int]] = field(default_factory=dict)
    spots: list[Spot] = field(default_factory=list)


def examine(scan: Scan, shard: Shard) -> Examined:
    """Everything that can be said about one shard by itself.

    Raises:
        UnavailableError: The store does not answer.
    """
    seen = _Seen()
    try:
        for batch in _decoded(scan, shard, seen):
            _take(scan, shard, seen, batch)
    except FlawError as flaw:
        spot = Spot(code=flaw.code, subject=shard.id, detail=flaw.detail)
        return Examined(splits={}, spots=[*seen.spots, spot], run=None)
    return _finished(scan, shard, seen)


def screen(scan: Scan, shard: Shard) -> list[Spot]:
    """The hits of one shard and no more: for bytes about which everything else was said before.

    Raises:
        UnavailableError: The store does not answer.
    """
    seen = _Seen()
    contents = len(scan.tombstones.contents) + len(scan.benchmarks.contents)
    try:
        for batch in _decoded(scan, shard, seen):
            ids, context = _members(batch)
            payload = batch.select(range(_TUPLE_COLUMNS, batch.num_columns))
            if not all(valid_text(payload.column(i)) for i in scan.text_columns):
                raise FlawError(ErrorCode.RECORD_UTF8, "a text is not valid UTF-8")
            content = _digested(scan, seen, payload) if contents else np.empty((0, 32), np.uint8)
            seen.spots += _hits(scan, shard, seen.rows, batch, (ids, context, content))
            seen.rows += len(ids)
    except FlawError as flaw:
        return [*seen.spots, Spot(code=flaw.code, subject=shard.id, detail=flaw.detail)]
    return seen.spots


def _decoded(scan: Scan, shard: Shard, seen: _Seen) -> Iterator[pa.RecordBatch]:
    lock = shard_lock(scan.release, shard, scan.unlocked)
    if shard.size > MAX_STORED or shard.logical_bytes > MAX_LOGICAL or shard.records > MAX_RECORDS:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "the shard is declared larger than a shard may be")
    descriptor = Descriptor(
        media_type=shard.media_type, digest=shard.digest, size=shard.size, object_version=shard.object_version
    )
    data = fetched(scan.store, descriptor)
    packed = packed_fields(scan.release.serializer, scan.schema)
    expected = shard_schema(scan.schema, packed)
    bounds = limits(shard.records, shard.logical_bytes, _TUPLE_BYTES * shard.records, len(expected))
    file = open_file(data, bounds, expected, checksums=True, lock=lock)
    seen.spots += departures(file, scan.release.serializer, scan.release.compression, packed, shard.id)
    stored = batches(data, file, unfolded_bytes=shard.logical_bytes + _TUPLE_BYTES * shard.records)
    return (unpacked(batch, packed) for batch in stored) if packed else stored


def _take(scan: Scan, shard: Shard, seen: _Seen, batch: pa.RecordBatch) -> None:
    """Check and digest one batch, and add it to what was seen."""
    ids, context = _members(batch)
    seen.id_bytes += pc.sum(pc.binary_length(ids)).as_py() or 0
    if seen.id_bytes > MAX_IDS:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "the sample ids have more bytes than those of a shard may have")
    payload = batch.select(range(_TUPLE_COLUMNS, batch.num_columns))
    for name, column in zip(scan.schema.fields, payload.columns, strict=True):
        if not fits(name.type, column):
            raise FlawError(ErrorCode.RECORD_SCHEMA, "a value does not fit its logical type")
    content = _digested(scan, seen, payload)
    if seen.logical_bytes > shard.logical_bytes + SLACK_BYTES:
        raise FlawError(ErrorCode.PARQUET_EXPANSION, "the records have more bytes than declared")
    seen.spots += _hits(scan, shard, seen.rows, batch, (ids, context, content))
    _count(scan, shard, seen, context[2], payload)
    seen.leaves.append(tuples.tuple_leaves(ids, context, content, raw_digest(scan.release.record_schema)))
    seen.ids.append(ids)
    seen.context.append(context)
    seen.content.append(content)
    seen.rows += len(ids)


def _digested(scan: Scan, seen: _Seen, payload: pa.RecordBatch) -> Bytes32:
    try:
        found = content_digests(scan.schema, payload)
    except InvalidInputError as err:
        raise FlawError(_AS_FINDING.get(ErrorCode(err.code), ErrorCode.PARQUET_EXPANSION), err.message) from err
    seen.logical_bytes += found.logical_bytes
    return found.digests


def _members(batch: pa.RecordBatch) -> tuple[Any, tuple[Any, Any, Any]]:
    """Sample ids, and the other tuple fields, each plain or as a dictionary."""
    columns = [batch.column(i) for i in range(_TUPLE_COLUMNS)]
    if not all(valid_text(column) for column in columns):
        raise FlawError(ErrorCode.RECORD_UTF8, "a tuple field is not valid UTF-8")
    # Before a dictionary is unfolded: it has as many bytes as it likes.
    if _longest(columns[0]) > MAX_ID_BYTES:
        raise FlawError(ErrorCode.RECORD_TUPLE_FIELD, "a sample id is longer than 1,024 bytes")
    ids = plain(columns[0])
    if pc.min(pc.binary_length(ids)).as_py() == 0:
        raise FlawError(ErrorCode.RECORD_TUPLE_FIELD, "a sample id is empty")
    if any(_longest(column) > MAX_FIELD_BYTES for column in columns[1:]):
        raise FlawError(ErrorCode.RECORD_TUPLE_FIELD, "a tuple field is longer than 4,096 bytes")
    return ids, (columns[1], columns[2], columns[3])


def _longest(values: Any) -> int:
    entries = values.dictionary if pt.is_dictionary(values.type) else values
    return pc.max(pc.binary_length(entries)).as_py() or 0


def _hits(scan: Scan, shard: Shard, first: int, batch: pa.RecordBatch, members: Any) -> Iterator[Spot]:
    ids, (source, version, _), content = members
    texts = [batch.column(_TUPLE_COLUMNS + i) for i in scan.text_columns]
    kinds = ((ErrorCode.TOMBSTONE_HIT, scan.tombstones), (ErrorCode.BENCHMARK_HIT, scan.benchmarks))
    for code, selectors in kinds:
        if selectors.empty:
            continue
        mask = tuple_hits(selectors, ids, source, version, content)
        by_text = text_hits(selectors, texts)
        places = np.flatnonzero(mask if by_text is None else mask | by_text)
        if len(places):
            at = int(places[0])
            yield Spot(code=code, subject=shard.id, count=len(places), row=first + at, sample_id=ids[at].as_py())


def _count(scan: Scan, shard: Shard, seen: _Seen, split: Any, payload: pa.RecordBatch) -> None:
    tokens, wrong = _tokens(scan.release.token_column, payload)
    if wrong:
        detail = f"tokens that are null, negative or more than {MAX_INTEGER}"
        seen.spots.append(Spot(code=ErrorCode.TOKEN_COUNT, subject=shard.id, count=wrong, detail=detail))
    names = joined_context([split if pt.is_dictionary(split.type) else split.dictionary_encode()])
    places = tuples.codes(names)
    records = np.bincount(places, minlength=len(names.dictionary))
    for code, name in enumerate(names.dictionary.to_pylist()):
        here = tokens[places == code] if len(names.dictionary) > 1 else tokens
        count, total = seen.splits.get(name, (0, 0))
        if records[code]:
            seen.splits[name] = (count + int(records[code]), total + _sum(here))
    seen.tokens += _sum(tokens)


def _sum(tokens: Any) -> int:
    """In whole numbers; what might wrap around is added one by one."""
    top = int(tokens.max()) if len(tokens) else 0
    return sum(tokens.tolist()) if top * len(tokens) > _INT64 else int(tokens.sum())


def _tokens(column: str | None, payload: pa.RecordBatch) -> tuple[Any, int]:
    """Tokens of each record, 0 for those that are no number of tokens; and how many these are."""
    if column is None:
        return np.zeros(payload.num_rows, np.int64), 0
    if column not in payload.schema.names:
        raise FlawError(ErrorCode.RECORD_SCHEMA, "the token column is not among the columns")
    values = payload.column(column)
    if pt.is_list(values.type):
        values = pc.list_value_length(values)
    elif not pt.is_integer(values.type):
        raise FlawError(ErrorCode.RECORD_SCHEMA, "the token column holds neither lists nor integers")
    # Where 64 unsigned bits wrap around they are negative, and so is what stands for a null.
    tokens = pc.fill_null(values.cast(pa.int64(), safe=False), -1).to_numpy(zero_copy_only=False)
    wrong = (tokens < 0) | (tokens > MAX_INTEGER)
    return np.where(wrong, 0, tokens), int(np.count_nonzero(wrong))


def _finished(scan: Scan, shard: Shard, seen: _Seen) -> Examined:
    if not seen.ids:
        nothing = pa.array([], pa.string())
        seen.ids, seen.context = [nothing], [(nothing, nothing, nothing)]
        seen.content, seen.leaves = [np.empty((0, 32), np.uint8)], [np.empty((0, 32), np.uint8)]
    source, version, split = (joined_context([one[i] for one in seen.context]) for i in range(3))
    run = Run(
        ids=pa.concat_arrays(seen.ids),
        context=(source, version, split),
        content=_stacked(seen.content),
        leaves=_stacked(seen.leaves),
        rows=np.arange(seen.rows, dtype=np.uint32),
    )
    ordered = in_order(run)
    spots = [*seen.spots, *_declared(scan, shard, seen, run, ordered)]
    if ordered is not run:
        spots.append(Spot(code=ErrorCode.RECORD_ORDER, subject=shard.id, detail="records are not in canonical order"))
    return Examined(splits=seen.splits, spots=spots, run=ordered)


def _stacked(parts: list[Bytes32]) -> Bytes32:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _declared(scan: Scan, shard: Shard, seen: _Seen, run: Run, ordered: Run) -> Iterator[Spot]:
    """What the manifest says of the shard against what was seen."""
    logical, member_set = tuples.shard_digests(content_type(scan.schema), run.content, ordered.leaves)
    facts = (
        (ErrorCode.RECORD_COUNT, seen.rows, shard.records),
        (ErrorCode.TOKEN_COUNT, seen.tokens, shard.tokens),
        (ErrorCode.LOGICAL_BYTES, seen.logical_bytes, shard.logical_bytes),
    )
    for code, have, want in facts:
        if have != want:
            yield Spot(code=code, subject=shard.id, detail=f"{have} seen, {want} declared")
    if logical != shard.logical_digest:
        yield Spot(code=ErrorCode.LOGICAL_DIGEST, subject=shard.id)
    if wrong := strays(run.leaves, scan.release.sharding, int(shard.id.split("-")[1])):
        yield Spot(code=ErrorCode.ROOT_SHARDS, subject=shard.id, count=wrong, detail="members of other shards")
    if member_set != shard.member_set_digest:
        yield Spot(code=ErrorCode.MEMBER_SET_DIGEST, subject=shard.id)


def in_order(run: Run) -> Run:
    """The run itself when it stands in canonical order, else a sorted copy."""
    ids = run.ids
    if pc.all(pc.less(ids[:-1], ids[1:]), min_count=0).as_py():
        return run
    order = tuples.canonical_order(ids, run.context, run.content)
    if np.array_equal(order, np.arange(len(run))):
        return run
    indices = pa.array(order)
    source, version, split = (column.take(indices) for column in run.context)
    return Run(
        ids=ids.take(indices),
        context=(source, version, split),
        content=run.content[order],
        leaves=run.leaves[order],
        rows=run.rows[order],
    )
