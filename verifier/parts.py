"""Parts of a snapshot and of a member index, read and checked. Source: schemas/SPEC.md#snapshot, #member-index"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardrel.canonical.sha import Bytes32, sha256_long
from shardrel.digest import to_digest
from shardrel.errors import ErrorCode, ShardrelError, UnavailableError
from shardrel.records.descriptor import Descriptor
from shardrel.records.snapshot import Part
from shardrel.store.objects import check_digest, get, get_unhashed
from shardrel.store.port import Store
from shardrel.trust.sealed_parts import PartsKey
from verifier.arrays import digest_matrix, joined_context
from verifier.decode import check_indices, dictionary_columns, open_again
from verifier.encryption import part_lock
from verifier.leaves import plain
from verifier.structure import FlawError, Limits, open_file
from verifier.utf8 import valid_text

Fetch = Callable[[Descriptor], bytes]
"""Gives exactly the bytes that a descriptor names; raises FlawError for what is wrong with them."""

MAX_PART_BYTES = 64 * 1024 * 1024
MAX_PART_RECORDS = 262_144
# Pages of a snapshot's part hold at most the bytes that it is cut at; an index part is cut by its stored size.
_PAGE_BYTES = 64 * 1024 * 1024
MAX_ID_BYTES = 1024
# A sample id at its longest, a leaf, two numbers and a length; no part has more to hold.
_PER_RECORD = MAX_ID_BYTES + 48

_STRINGS = [
    pa.field(name, pa.string(), nullable=False) for name in ("sample_id", "source_id", "source_version", "split")
]
_SNAPSHOT = pa.schema([*_STRINGS, pa.field("content_digest", pa.binary(32), nullable=False)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Tuples of one part, in order.

    Attributes:
        context: Source id, source version, split: string arrays or dictionaries of strings.
    """

    ids: Any
    context: tuple[Any, Any, Any]
    content: Bytes32

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: Any) -> "Listed":
        """The tuples for which the mask is true."""
        if keep.all():
            return self
        mask = pa.array(keep)
        source, version, split = (column.filter(mask) for column in self.context)
        return Listed(ids=self.ids.filter(mask), context=(source, version, split), content=self.content[keep])


def read_snapshot_part(fetch: Fetch, part: Part, lower: str | None, parts_key: PartsKey | None = None) -> Listed:
    """Tuples of a part of a snapshot whose sample ids lie above ``lower``.

    Raises:
        FlawError: ``snapshot.invalid`` with what is wrong; a storage or Parquet code for its bytes.
    """
    table = read_part(fetch, part, _SNAPSHOT, ErrorCode.SNAPSHOT_INVALID, parts_key)
    ids = text_column(table.column(0), ErrorCode.SNAPSHOT_INVALID)
    if not pc.all(pc.less(ids[:-1], ids[1:]), min_count=0).as_py():
        raise FlawError(ErrorCode.SNAPSHOT_INVALID, "the sample ids of a part do not strictly grow")
    if ids[-1].as_py() != part.last_sample_id or (lower is not None and ids[0].as_py() <= lower):
        raise FlawError(ErrorCode.SNAPSHOT_INVALID, "a part holds sample ids outside of its range")
    source, version, split = (_context_column(column, ErrorCode.SNAPSHOT_INVALID) for column in table.columns[1:4])
    content = digest_matrix(table.column(4).combine_chunks())
    return Listed(ids=ids, context=(source, version, split), content=content)


def read_part(fetch: Fetch, part: Part, schema: pa.Schema, code: ErrorCode, parts_key: PartsKey | None = None) -> Any:
    """The columns of a part of a snapshot or of a member index; there is at least one row.

    Args:
        fetch: Gives its bytes.
        part: With a border that can be read.
        schema: Its physical schema.
        code: For what is wrong with it as a part.
        parts_key: Of parts that are encrypted.

    Raises:
        FlawError: ``code`` with what is wrong; a storage or Parquet code for its bytes.
    """
    if part.object.size > MAX_PART_BYTES or part.records > MAX_PART_RECORDS or part.last_sample_id is None:
        raise FlawError(code, "a part is larger than a part may be, or does not name its last sample id")
    data = fetch(part.object)
    bounds = Limits(records=part.records, uncompressed=_PER_RECORD * part.records + _PAGE_BYTES, values=part.records)
    file = open_file(data, bounds, schema, checksums=True, lock=part_lock(parts_key, part))
    try:
        table = open_again(data, dictionary_columns(file.metadata), file.decryption).read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as err:
        raise FlawError(ErrorCode.PARQUET_STRUCTURE, "a page does not decode") from err
    if not table.num_rows:
        raise FlawError(code, "a part is empty")
    for column in table.columns:
        for chunk in column.chunks:
            check_indices(chunk)
    return table


def text_column(column: Any, code: ErrorCode) -> Any:
    """Sample ids of a column as plain strings, in one array.

    Raises:
        FlawError: ``code``: they are not valid UTF-8, or one is longer than a sample id may be.
    """
    joined = _context_column(column, code)
    entries = joined.dictionary if pa.types.is_dictionary(joined.type) else joined
    if (pc.max(pc.binary_length(entries)).as_py() or 0) > MAX_ID_BYTES:  # before a dictionary is unfolded
        raise FlawError(code, "a sample id is longer than 1,024 bytes")
    values = plain(joined)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def _context_column(column: Any, code: ErrorCode) -> Any:
    joined = joined_context(column.chunks)
    if not valid_text(joined):
        raise FlawError(code, "a tuple field is not valid UTF-8")
    return joined


def fetched(store: Store, descriptor: Descriptor) -> bytes:
    """Exactly the bytes that a descriptor names; what is wrong with them becomes a flaw.

    Raises:
        FlawError: ``storage.…``
        UnavailableError: The store does not answer.
    """
    with _as_flaw():
        return get(store, descriptor)


def fetched_together(store: Store, first: Part, second: Part) -> Fetch:
    """Read two parts at once, whose digests take less time together than one after the other.

    Returns:
        As ``fetched``, of these two and any other part; these two are kept until they have been given.

    Raises:
        UnavailableError: The store does not answer.
    """
    found = {
        part.object: _unhashed(store, part.object) for part in (first, second) if part.object.size <= MAX_PART_BYTES
    }
    whole = [(descriptor, data) for descriptor, data in found.items() if isinstance(data, bytes)]
    hashed = sha256_long([(b"", data) for _, data in whole])
    digests = {descriptor: to_digest(raw) for (descriptor, _), raw in zip(whole, hashed, strict=True)}

    def give(descriptor: Descriptor) -> bytes:
        data = found.pop(descriptor, None)
        if data is None:
            return fetched(store, descriptor)
        if isinstance(data, FlawError):
            raise data
        with _as_flaw():
            check_digest(digests[descriptor], descriptor)
        return data

    return give


def _unhashed(store: Store, descriptor: Descriptor) -> bytes | FlawError:
    try:
        with _as_flaw():
            return get_unhashed(store, descriptor)
    except FlawError as flaw:
        return flaw


@contextmanager
def _as_flaw() -> Iterator[None]:
    try:
        yield
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
    return Listed(ids=none, context=(none, none, none), content=np.empty((0, 32), np.uint8))
