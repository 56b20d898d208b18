"""Ledger: the digest chain of what a run consumed. Source: schemas/SPEC.md#sample-order.

It depends on the global order alone, so an interrupted run, a resumed one and one of another
world size end in the same digest exactly when they consumed the same samples in the same steps.
"""

import hashlib
import struct

import numpy as np

from shardrel.data.mix import RunOrder, counts_at, epoch_at, samples_from
from shardrel.data.order import Samples
from shardrel.digest import Digest, Domain, domain_hash, raw_digest, to_digest
from shardrel.records.checkpoint import Cut

_DOMAIN = Domain.LEDGER.value
_STEP = struct.Struct("<QQ").pack


def genesis(root: str) -> Cut:
    """The cut before step 0."""
    return Cut(step=0, epoch=0, cursor=0, ledger=to_digest(domain_hash(Domain.LEDGER, raw_digest(root))))


def chain(ledger: str, step: int, samples: Samples) -> Digest:
    """The ledger after a step that consumed ``samples`` (shape (m, 2)) in this global order."""
    # As ``domain_hash`` would, at half its price: this runs at every step of every rank.
    state = hashlib.sha256(_DOMAIN + bytes.fromhex(ledger[7:]) + _STEP(step, len(samples)))
    state.update(np.ascontiguousarray(samples, dtype="<u4").data)
    return Digest("sha256:" + state.hexdigest())


def after(cut: Cut, samples: Samples, order: RunOrder) -> Cut:
    """The cut behind one more step that consumed ``samples``; ``epoch`` is that of the next sample."""
    cursor = cut.cursor + len(samples)
    return Cut(
        step=cut.step + 1,
        epoch=epoch_at(order, cursor),
        cursor=cursor,
        ledger=chain(cut.ledger, cut.step, samples),
    )


def replay(cut: Cut, order: RunOrder, global_batch: int, steps: int) -> Cut:
    """What the cut must be after ``steps`` more steps; needs sizes and seed, no file and no tensor."""
    for _ in range(steps):
        (count,) = counts_at(order, cut.cursor, global_batch, 1)
        cut = after(cut, samples_from(order, cut.cursor, count), order)
    return cut
