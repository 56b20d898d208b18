"""Leaves of member tuples, and the digests over them. Source: schemas/SPEC.md#member-tuples, #shard-stream"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shardrel.canonical.sha import Bytes32, sha256_rows
from shardrel.digest import Digest, Domain, domain_hash, lp, to_digest, u64
from verifier.pieces import Fixed, Piece, constant, numbers, slices, weave


def tuple_leaves(ids: Any, context: tuple[Any, Any, Any], content: Bytes32, schema_digest: bytes) -> Bytes32:
    """Leaf of each tuple.

    Args:
        ids: String array of n sample ids.
        context: Source id, source version and split, each a string array or a dictionary of strings.
        content: Shape (n, 32).
        schema_digest: 32 raw bytes.
    """
    source, version, split = context
    pieces: list[Piece] = [constant(Domain.TUPLE.value)]
    pieces += [*prefixed(ids), *prefixed(source), *prefixed(version)]
    pieces += [Fixed(content, None), *prefixed(split), constant(schema_digest)]
    return sha256_rows(weave(len(ids), pieces))


def prefixed(values: Any) -> list[Piece]:
    """``lp`` of each string. A dictionary of equally long strings is laid out once an entry, not once a row."""
    if not pt.is_dictionary(values.type):
        data = values.buffers()[2] or b""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
        return [numbers(np.diff(offsets).astype(np.int64), None), slices(offsets, data, None)]
    entries = values.dictionary
    if len(entries) == 1:
        return [constant(lp(entries[0].as_buffer().to_pybytes()))]
    sizes = pc.unique(pc.binary_length(entries))
    if len(sizes) != 1:
        return prefixed(plain(values))
    laid_out = np.frombuffer(b"".join([lp(entry.as_buffer().to_pybytes()) for entry in entries]), np.uint8)
    return [Fixed(laid_out.reshape(len(entries), -1)[codes(values)], None)]


def plain(values: Any) -> Any:
    """A string array, without its dictionary."""
    return values.dictionary.take(values.indices) if pt.is_dictionary(values.type) else values


def codes(values: Any) -> Any:
    """Indices of a dictionary array without nulls."""
    return values.indices.to_numpy(zero_copy_only=False)


def stream_digest(content_type: bytes, content: Bytes32) -> Digest:
    """``logicalDigest`` of records in stored order."""
    return to_digest(domain_hash(Domain.STREAM, content_type, u64(len(content)), _flat(content)))


def member_set_digest(leaves: Bytes32) -> Digest:
    """``memberSetDigest`` of leaves that stand in canonical order."""
    return to_digest(domain_hash(Domain.MEMBER, u64(len(leaves)), _flat(leaves)))


def _flat(rows: Bytes32) -> memoryview:
    return np.ascontiguousarray(rows).data.cast("B") if len(rows) else memoryview(b"")


def canonical_order(ids: Any, context: tuple[Any, Any, Any], content: Bytes32) -> Any:
    """Indices that put tuples of one schema into canonical order."""
    flat = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), len(content), [None, pa.py_buffer(_flat(content))])
    columns = [ids, plain(context[0]), plain(context[1]), flat.cast(pa.binary()), plain(context[2])]
    table = pa.table(columns, names=list("abcde"))
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in "abcde"]).to_numpy()
