"""From a batch of records to what will be published of it. Source: schemas/SPEC.md#publish."""

import numpy as np
import pyarrow as pa

from publisher.declared import Declared
from publisher.members import MemberBatch
from publisher.named import Selectors, named_members, named_texts
from publisher.stage import Prepared
from shardrel.membership.tuples import member_leaves


def prepare(batch: MemberBatch, declared: Declared, fences: Selectors) -> tuple[Prepared, int]:
    """Leave out the records that the logs name, and compute the leaves of the others.

    Returns:
        The records, and how many were left out.
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
    return Prepared(members=members, leaves=leaves, lengths=lengths, tokens=tokens, payload=payload), excluded
