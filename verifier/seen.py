"""Member tuples that shards hold, and where each lies. Source: schemas/SPEC.md#verification"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.canonical.sha import Bytes32
from verifier.arrays import moved

Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Tuples of one range.

    Attributes:
        context: Source id, source version, split: string arrays or dictionaries of strings.
        shards, rows: Number of the shard that holds each, and its row there.
    """

    ids: Any
    context: tuple[Any, Any, Any]
    content: Bytes32
    leaves: Bytes32
    shards: Numbers
    rows: Numbers

    def __len__(self) -> int:
        return len(self.ids)

    def ordered(self, order: npt.NDArray[np.int64]) -> "Seen":
        """The tuples in another order."""
        indices = pa.array(order)
        source, version, split = (column.take(indices) for column in self.context)
        return Seen(
            ids=self.ids.take(indices),
            context=(source, version, split),
            content=moved(self.content, order),
            leaves=moved(self.leaves, order),
            shards=self.shards[order],
            rows=self.rows[order],
        )
