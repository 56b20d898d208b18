"""Parts of a snapshot and of a member index, read and checked. Source: schemas/SPEC.md#snapshot, #member-index"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32
from shardrel.errors import ErrorCode, ShardrelError, UnavailableError
from shardrel.records.snapshot import Part
from shardrel.store.objects import get
from shardrel.store.port import Store
from verifier.decode import dictionary_columns, open_again
from verifier.runs import digest_matrix, joined_context
from verifier.structure import FlawError, Limits, open_file

MAX_PART_BYTES = 64 * 1024 * 1024
MAX_PART_RECORDS = 262_144
_PER_RECORD = 4096

_STRINGS = [
    pa.field(name, pa.string(), nullable=False) for name in ("sample_id", "source_id", "source_version", "split")
]
_SNAPSHOT = pa.schema([*_STRINGS, pa.field("content_digest", pa.binary(32), nullable=False)])
_INDEX = pa.schema([*_SNAPSHOT, *(pa.field(name, pa.uint32(), nullable=False) for name in ("shard", "row"))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Tuples of one part, in order.

    Attributes:
        context: Source id, source version, split: string arrays or dictionaries of strings.
        places: Shard and row of each, in a member index.
    """

    ids: Any
    context: tuple[Any, Any, Any]
    content: Bytes32
    places: tuple[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: Any) -> "Listed":
        """The tuples for which the mask is true."""
        if keep.all():
            return self
        mask = pa.array(keep)
        source, version, split = (column.filter(mask) for column in self.context)
        places = None if self.places is None else (self.places[0][keep], self.places[1][keep])
        return Listed(
            ids=self.ids.filter(mask), context=(source, version, split), content=self.content[keep], places=places
        )


def read_snapshot_part(store: Store, part: Part, lower: str | None) -> Listed:
    """Tuples of a part of a snapshot whose sample ids lie above ``lower``.

    Raises:
        FlawError: ``snapshot.invalid`` with what is wrong; a storage or Parquet code for its bytes.
    """
    listed = _read(store, part, _SNAPSHOT, ErrorCode.SNAPSHOT_INVALID)
    ids = listed.ids
    if not pc.all(pc.less(ids[:-1], ids[1:]), min_count=0).as_py():
        raise FlawError(ErrorCode.SNAPSHOT_INVALID, "the sample ids of a part do not strictly grow")
    if ids[-1].as_py() != part.last_sample_id or (lower is not None and ids[0].as_py() <= lower):
        raise FlawError(ErrorCode.SNAPSHOT_INVALID, "a part holds sample ids outside of its range")
    return listed


def read_index_part(store: Store, part: Part) -> Listed:
    """Tuples of a part of a member index.

    Raises:
        FlawError: ``member-index.mismatch``; a storage or Parquet code for its bytes.
    """
    return _read(store, part, _INDEX, ErrorCode.MEMBER_INDEX)


def _read(store: Store, part: Part, schema: pa.Schema, code: ErrorCode) -> Listed:
    if part.object.size > MAX_PART_BYTES or part.records > MAX_PART_RECORDS or part.last_sample_id is None:
        raise FlawError(code, "a part is larger than a part may be, or does not name its last sample id")
    data = fetch(store, part.object)
    bounds = Limits(records=part.records, uncompressed=_PER_RECORD * part.records + 2**24, values=part.records)
    file = open_file(data, bounds, schema, checksums=True)
    try:
        table = open_again(data, dictionary_columns(file.metadata)).read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as err:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "a page does not decode") from err
    return _listed(table, code)


def _listed(table: Any, code: ErrorCode) -> Listed:
    columns = [joined_context(column.chunks) for column in table.columns[:4]]
    if any(not valid_text(column) for column in columns):
        raise FlawError(code, "a tuple field is not valid UTF-8")
    if not table.num_rows:
        raise FlawError(code, "a part is empty")
    content = digest_matrix(table.column(4).combine_chunks())
    places = None
    if table.num_columns > 5:
        places = (table.column(5).to_numpy(), table.column(6).to_numpy())
    ids = columns[0] if pa.types.is_string(columns[0].type) else columns[0].cast(pa.string())
    return Listed(ids=ids, context=(columns[1], columns[2], columns[3]), content=content, places=places)


def valid_text(values: Any) -> bool:
    """Whether every string, or every entry of the dictionary, is valid UTF-8."""
    try:
        (values.dictionary if pa.types.is_dictionary(values.type) else values).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def fetch(store: Store, descriptor: Any) -> bytes:
    """Exactly the bytes that a descriptor names; what is wrong with them becomes a flaw.

    Raises:
        FlawError: ``storage.…``
        UnavailableError: The store does not answer.
    """
    try:
        return get(store, descriptor)
    except UnavailableError:
        raise
    except ShardrelError as err:
        raise FlawError(err.code, err.message) from err


def overlapping(parts: Sequence[Part], lower: str | None, upper: str | None) -> list[Part]:
    """Parts that may hold sample ids above ``lower`` and not above ``upper``; None is no bound."""
    found, before = [], None
    for part in parts:
        last = part.last_sample_id or ""
        if (lower is None or last > lower) and (before is None or upper is None or before < upper):
            found.append(part)
        before = last
    return found


def empty_listed() -> Listed:
    """No tuples."""
    none = pa.array([], pa.string())
    nothing = np.empty(0, np.uint32)
    return Listed(ids=none, context=(none, none, none), content=np.empty((0, 32), np.uint8), places=(nothing, nothing))


def concatenated(parts: Sequence[Listed]) -> Listed:
    """Index parts one after another."""
    if not parts:
        return empty_listed()
    if len(parts) == 1:
        return parts[0]
    source, version, split = (joined_context([part.context[i] for part in parts]) for i in range(3))
    places = [part.places for part in parts if part.places is not None]
    return Listed(
        ids=pa.concat_arrays([part.ids for part in parts]),
        context=(source, version, split),
        content=np.concatenate([part.content for part in parts]),
        places=(np.concatenate([p[0] for p in places]), np.concatenate([p[1] for p in places])),
    )
