"""Leaves of member tuples, and the digests over them. Source: schemas/SPEC.md#member-tuples, #shard-stream"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.sha import Bytes32, sha256_long
from shardrel.digest import Digest, Domain, to_digest, u64
from verifier.pieces import Fixed, Piece, constant, digests, numbers, slices


def tuple_leaves(ids: Any, context: tuple[Any, Any, Any], content: Bytes32, schema_digest: bytes) -> Bytes32:
    """Leaf of each tuple.

    Args:
        ids: String array of n sample ids.
        context: Source id, source version and split, each a string array or a dictionary of strings.
        content: Shape (n, 32).
        schema_digest: 32 raw bytes.
    """
    if not len(ids):
        return np.empty((0, 32), np.uint8)
    head = [constant(Domain.TUPLE.value), _origin(context, schema_digest), Fixed(content, None)]
    return digests(len(ids), [*head, _text(ids)[1]])[0]


def _origin(context: tuple[Any, Any, Any], schema_digest: bytes) -> Fixed:
    """Origin of each row; what several rows share is hashed once."""
    folded = [values if pt.is_dictionary(values.type) else values.dictionary_encode() for values in context]
    if all(len(values.dictionary) == 1 for values in folded):
        return Fixed(_hashed(folded, np.zeros(1, np.int64), schema_digest)[0], None)
    numbered = codes(folded[0]).astype(np.int64)
    for values in folded[1:]:
        if len(values.dictionary) > 1:
            numbered = _renumbered(numbered)[0] * len(values.dictionary) + codes(values)
    numbered, firsts = _renumbered(numbered)
    hashed = _hashed(folded, firsts, schema_digest)
    return Fixed(hashed[0] if len(hashed) == 1 else hashed.take(numbered, axis=0), None)


def _hashed(folded: Sequence[Any], rows: Any, schema_digest: bytes) -> Bytes32:
    """Origins of some rows."""
    pieces: list[Piece] = [constant(Domain.ORIGIN.value)]
    for values in folded:
        pieces += _prefixed(plain(values.take(pa.array(rows))))
    return digests(len(rows), [*pieces, constant(schema_digest)])[0]


def _prefixed(values: Any) -> list[Piece]:
    offsets, text = _text(values)
    return [numbers(np.diff(offsets).astype(np.int64), None), text]


def _text(values: Any) -> tuple[Any, Piece]:
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    return offsets, slices(offsets, values.buffers()[2] or b"", None)


def _renumbered(classes: Any) -> tuple[Any, Any]:
    """The same classes of rows numbered from 0 on without gaps, and the first row of each class."""
    coded = pa.array(classes).dictionary_encode()
    places = codes(coded).astype(np.int64)
    firsts = np.empty(len(coded.dictionary), np.int64)
    # The last one written stays, hence backwards.
    firsts[places[::-1]] = np.arange(len(places))[::-1]
    return places, firsts


def plain(values: Any) -> Any:
    """A string array, without its dictionary."""
    return values.dictionary.take(values.indices) if pt.is_dictionary(values.type) else values


def codes(values: Any) -> Any:
    """Indices of a dictionary array without nulls."""
    return values.indices.to_numpy(zero_copy_only=False)


def shard_digests(content_type: bytes, content: Bytes32, leaves: Bytes32) -> tuple[Digest, Digest]:
    """``logicalDigest`` of records in stored order, and ``memberSetDigest`` of leaves in canonical order."""
    stream = Domain.STREAM.value + content_type + u64(len(content)), _flat(content)
    members = Domain.MEMBER.value + u64(len(leaves)), _flat(leaves)
    logical, member_set = sha256_long([stream, members])
    return to_digest(logical), to_digest(member_set)


def _flat(rows: Bytes32) -> memoryview:
    return np.ascontiguousarray(rows).data.cast("B") if len(rows) else memoryview(b"")


def canonical_order(ids: Any, context: tuple[Any, Any, Any], content: Bytes32) -> Any:
    """Indices that put tuples of one schema into canonical order."""
    flat = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(content), [None, pa.py_buffer(_flat(content))])
    columns = [ids, plain(context[0]), plain(context[1]), flat.cast(pa.binary()), plain(context[2])]
    table = pa.table(columns, names=list("abcde"))
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in "abcde"]).to_numpy()
