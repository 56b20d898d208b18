"""Members of many files, in order and in bounded memory: tuple fields, tokens, payload, content digests.

Source: schemas/SPEC.md#snapshot
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.caps import nesting_within
from publisher.located import at_row, in_file
from publisher.mapping import Mapping, payload_schema
from publisher.parallel import in_order
from publisher.tuple_fields import constant, field_of, sample_ids_of, tokens_of
from shardrel.canonical.plain import is_plain
from shardrel.canonical.rows import ContentDigests, RowEncoder
from shardrel.canonical.schema import physical_schema, to_physical, unify
from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.membership.columns import Members, plain
from shardrel.records.schema import RecordSchema
from shardrel.sources import BATCH_BYTES, SourceFile, SourcePath, list_files, open_source
from shardrel.sources.ipc import IpcSource
from shardrel.sources.jsonl import JsonlSource, common_schema
from shardrel.sources.slicing import row_bytes

DEFAULT_SPLIT = "train"
# Bytes of the batches that are worked on at the same time: a few large ones. Many small ones, so that there is
# something to do while the records' version, the digest of their file, is still made; a tiny one counts as more.
_AHEAD_BYTES = 6 * BATCH_BYTES
_LEAST_BYTES = _AHEAD_BYTES // 96
# Digest, length, tokens and three codes of repeated fields, which are held with each record that is read ahead.
_BESIDE_BYTES = 32 + 8 + 8 + 3 * 4
# A number as text, and its offset.
_NUMBER_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBatch:
    """Consecutive records of one file.

    Attributes:
        file: Index of the file among the reader's.
        first_row: Row in that file of the first record.
        members: Tuple fields of n records, with their content digests.
        tokens: Shape (n,), int64.
        lengths: Bytes of the canonical encodings, shape (n,), int64.
        payload: ``pa.Table`` of the payload columns in physical types.
    """

    file: int
    first_row: int
    members: Members
    tokens: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    payload: Any

    @property
    def logical_bytes(self) -> int:
        """Sum of the lengths."""
        return int(self.lengths.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hashed:
    """A batch without the version of its file; ``versions`` is what a column gives."""

    file: int
    first_row: int
    fields: tuple[Any, Any, Any]
    versions: Any | None
    tokens: npt.NDArray[np.int64]
    digests: ContentDigests
    payload: Any


class MemberReader:
    """Reads the members of files that agree on one record schema, as often as asked.

    Attributes:
        files: In the order in which they are read.
        record_schema: Of the payload, over all files.
    """

    def __init__(self, files: Sequence[SourcePath], mapping: Mapping) -> None:
        """Open all files and agree on a schema; nothing but JSON Lines is decoded.

        Raises:
            InvalidInputError: Whatever ``open_source`` and ``payload_schema`` raise, with the file;
                ``schema.conflict`` where files disagree; ``input.no-records``; ``schema.unsupported-type`` also for
                a nesting that no shard can have.
        """
        self.files = tuple(files)
        self.mapping = mapping
        self._sources = [open_source(file.path) for file in files]
        self._json = _json_target(self._sources)
        self.record_schema = _agree(self._sources, self._json, mapping)
        nesting_within(self.record_schema)
        self._encoder = RowEncoder(self.record_schema)
        self._physical = physical_schema(self.record_schema)

    def digests(self) -> tuple[Digest, ...]:
        """SHA-256 of each file, streamed where it is not known yet."""
        return tuple(source.digest for source in self._sources)

    def batches(self, pool: Executor | None = None, batch_bytes: int = BATCH_BYTES) -> Iterator[MemberBatch]:
        """All members in order of files and rows.

        Args:
            pool: Where batches are encoded, a few at a time; they still come in order.
            batch_bytes: Bound of a batch's decoded bytes; one record is never cut.

        Raises:
            InvalidInputError: Whatever ``SourceFile.batches``, ``sample_ids_of``, ``field_of`` and ``tokens_of``
                raise, and ``input.invalid-utf8``, each with ``path`` and ``row``.
        """
        reads = self._read(batch_bytes)
        hashed = (
            map(self._hashed, reads)
            if pool is None
            else in_order(pool, self._hashed, reads, _AHEAD_BYTES, self._held_bytes)
        )
        # A version by rule waits until its whole file is hashed; the records of the next batches are, meanwhile.
        return map(self._versioned, hashed)

    def places(self, sample_ids: Collection[str]) -> Iterator[tuple[str, int, int]]:
        """Where these records lie: sample id, index of the file, row in it; nothing but ids is encoded.

        Raises:
            InvalidInputError: As ``batches``.
        """
        wanted = pa.array(sorted(sample_ids), pa.string())
        for index, first_row, batch in self._read(BATCH_BYTES):
            ids = plain(self._fields(index, first_row, batch)[0])
            for at in np.flatnonzero(pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)):
                yield ids[int(at)].as_py(), index, first_row + int(at)

    @property
    def num_rows(self) -> int | None:
        """Records of all files, where every file tells before it is read."""
        counts = [source.num_rows for source in self._sources]
        return None if None in counts else sum(count or 0 for count in counts)

    def _read(self, batch_bytes: int) -> Iterator[tuple[int, int, Any]]:
        for index, source in enumerate(self._sources):
            row = 0
            for batch in source.batches(self._json if isinstance(source, JsonlSource) else None, batch_bytes):
                yield index, row, batch
                row += batch.num_rows

    def _held_bytes(self, read: tuple[int, int, Any]) -> int:
        source, batch = self._sources[read[0]], read[2]
        columns = self.mapping.columns
        fields = [name for name in (columns.id, columns.source, columns.version, columns.split) if name is not None]
        numbers = sum(not pa.types.is_string(batch.schema.field(name).type) for name in fields)
        made = 0 if columns.id is not None else len(self.files[read[0]].relative) + _NUMBER_BYTES
        beside = _BESIDE_BYTES + numbers * _NUMBER_BYTES + made
        held: int = held_bytes(source, batch) + beside * batch.num_rows
        return max(held, _LEAST_BYTES)

    def _hashed(self, read: tuple[int, int, Any]) -> _Hashed:
        index, first_row, batch = read
        path = self.files[index].path
        try:
            payload = self._payload(batch)
            digests = self._encoder.content_digests(payload)
            ids, sources, versions, splits = self._fields(index, first_row, batch)
            tokens = self._tokens(batch)
        except InvalidInputError as err:
            raise at_row(err, path, first_row) from err
        return _Hashed(
            file=index,
            first_row=first_row,
            fields=(ids, sources, splits),
            versions=versions,
            tokens=tokens,
            digests=digests,
            payload=payload,
        )

    def _versioned(self, hashed: _Hashed) -> MemberBatch:
        ids, sources, splits = hashed.fields
        versions = hashed.versions
        if versions is None:
            versions = constant(self._sources[hashed.file].digest, len(ids))
        members = Members(
            sample_ids=ids,
            source_ids=sources,
            source_versions=versions,
            splits=splits,
            digests=hashed.digests.digests,
        )
        return MemberBatch(
            file=hashed.file,
            first_row=hashed.first_row,
            members=members,
            tokens=hashed.tokens,
            lengths=hashed.digests.lengths,
            payload=hashed.payload,
        )

    def _payload(self, batch: Any) -> Any:
        fields = self.record_schema.fields
        return pa.table([to_physical(batch.column(field.name), field) for field in fields], schema=self._physical)

    def _fields(self, index: int, first_row: int, batch: Any) -> tuple[Any, Any, Any, Any]:
        columns, count = self.mapping.columns, batch.num_rows
        relative = self.files[index].relative
        if columns.id is None:
            ids = sample_ids_of(_row_ids(relative, first_row, count), "sample id by rule")
        else:
            ids = sample_ids_of(batch.column(columns.id), columns.id)
        versions = None if columns.version is None else field_of(batch.column(columns.version), columns.version)
        return ids, _field(batch, columns.source, relative), versions, _field(batch, columns.split, DEFAULT_SPLIT)

    def _tokens(self, batch: Any) -> npt.NDArray[np.int64]:
        column = self.mapping.token_column
        return np.zeros(batch.num_rows, np.int64) if column is None else tokens_of(batch.column(column), column)


def read_members(sources: Sequence[str], mapping: Mapping) -> MemberReader:
    """Open the files that SOURCEs stand for; see ``MemberReader``."""
    return MemberReader(list_files(sources), mapping)


def held_bytes(source: SourceFile, batch: Any) -> int:
    """Bytes of memory that a batch takes once it is decoded.

    What is folded counts as what it unfolds to. What stays where it lies in a mapped file takes none.
    """
    return sum(_held(source, column) for column in batch.columns)


def _held(source: SourceFile, column: Any) -> int:
    if not is_plain(column.type):
        return int(row_bytes(column).sum())
    stays = isinstance(source, IpcSource) and source.is_mapped(column) and _is_physical(column.type)
    return 0 if stays else int(column.nbytes)


def _is_physical(kind: Any) -> bool:
    """Whether such values become part of a payload, or tuple fields, as they are."""
    return bool(pa.types.is_string(kind) or (pa.types.is_primitive(kind) and not pa.types.is_float16(kind)))


def _field(batch: Any, column: str | None, default: str) -> Any:
    return constant(default, batch.num_rows) if column is None else field_of(batch.column(column), column)


def _row_ids(relative: str, first_row: int, count: int) -> Any:
    return pa.array([f"{relative}#{row}" for row in range(first_row, first_row + count)], pa.string())


def _json_target(sources: Sequence[SourceFile]) -> Any:
    files = [source for source in sources if isinstance(source, JsonlSource) and source.num_rows]
    return common_schema(files) if files else pa.schema([])


def _agree(sources: Sequence[SourceFile], json_schema: Any, mapping: Mapping) -> RecordSchema:
    """One record schema for all files, or an error that names the first file that differs."""
    agreed: RecordSchema | None = None
    for source in sources:
        if isinstance(source, JsonlSource) and not source.num_rows:
            continue  # no line has told any type
        schema = json_schema if isinstance(source, JsonlSource) else source.schema
        try:
            payload = payload_schema(schema, mapping)
            agreed = payload if agreed is None or payload == agreed else unify([agreed, payload])
        except InvalidInputError as err:
            raise in_file(err, source.path) from err
    if agreed is None:
        raise InvalidInputError(ErrorCode.INPUT_NO_RECORDS, "the sources hold no records")
    return agreed
