"""From a batch of records to what will be published of it. Source: schemas/SPEC.md#publish."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.declared import Declared
from publisher.members import MemberBatch
from publisher.named import Selectors, named_members, named_texts
from publisher.stage import Prepared
from shardrel.canonical.packed import pack
from shardrel.errors import InvalidInputError
from shardrel.membership.tuples import member_leaves
from shardrel.records.schema import Field


def prepare(
    batch: MemberBatch, declared: Declared, fences: Selectors, packed: Sequence[Field] = ()
) -> tuple[Prepared, int]:
    """Leave out the records that the logs name, compute the leaves of the others, and pack some of their columns.

    Returns:
        The records, and how many were left out.

    Raises:
        InvalidInputError: As ``pack``, with the row of the batch.
    """
    named = named_members(batch.members, fences)
    named |= named_texts(batch.payload, declared.snapshot.text_columns, fences)
    excluded = int(np.count_nonzero(named))
    members, payload, lengths, tokens = batch.members, batch.payload, batch.lengths, batch.tokens
    if excluded:
        keep = ~named
        members, payload = members.filter(keep), payload.filter(pa.array(keep))
        lengths, tokens = lengths[keep], tokens[keep]
    leaves = member_leaves(members, declared.schema_digest)
    payload = _packed(payload, packed, named)
    return Prepared(members=members, leaves=leaves, lengths=lengths, tokens=tokens, payload=payload), excluded


def _packed(payload: Any, fields: Sequence[Field], named: npt.NDArray[np.bool_]) -> Any:
    try:
        return pack(payload, fields)
    except InvalidInputError as err:
        row = err.context.get("row")
        where = {"row": int(np.flatnonzero(~named)[row])} if isinstance(row, int) else {}
        raise InvalidInputError(err.code, err.message, **{**err.context, **where}) from err
