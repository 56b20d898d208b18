"""Totals of a snapshot or a release by split. Source: schemas/SPEC.md#snapshot"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.canonical.json import MAX_INTEGER
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.snapshot import SplitTotals

MAX_SPLITS = 10_000


class SplitCounter:
    """Counts records and tokens of each split, batch by batch."""

    def __init__(self) -> None:
        self._records: dict[str, int] = {}
        self._tokens: dict[str, int] = {}

    def add(self, splits: Any, tokens: npt.NDArray[np.int64]) -> None:
        """Count the records of a batch.

        Raises:
            InvalidInputError: ``input.invalid``: more than 10,000 splits, so the column is none of splits;
                ``input.token-count``: more tokens than a record can tell.
        """
        # Beyond 2^53 a float is not exact, and never below it.
        if self.tokens + int(tokens.sum(dtype=np.float64)) > MAX_INTEGER:
            raise InvalidInputError(
                ErrorCode.INPUT_TOKENS, "the records have more than 2^53-1 tokens together: is it the right column?"
            )
        encoded = splits if pa.types.is_dictionary(splits.type) else splits.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        numbers = encoded.indices.to_numpy()
        if len(names) == 1:  # the usual case, and adding by number is slow
            records, sums = np.array([len(numbers)]), np.array([tokens.sum()])
        else:
            records, sums = np.bincount(numbers, minlength=len(names)), np.zeros(len(names), np.int64)
            np.add.at(sums, numbers, tokens)
        for name, count, total in zip(names, records.tolist(), sums.tolist(), strict=True):
            if count:
                self._records[name] = self._records.get(name, 0) + count
                self._tokens[name] = self._tokens.get(name, 0) + total
        if len(self._records) > MAX_SPLITS:
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID, f"there are more than {MAX_SPLITS} splits: is it the right column?"
            )

    @property
    def records(self) -> int:
        """Of all splits."""
        return sum(self._records.values())

    @property
    def tokens(self) -> int:
        """Of all splits."""
        return sum(self._tokens.values())

    @property
    def totals(self) -> dict[str, SplitTotals]:
        """Of each split that occurs."""
        return {
            name: SplitTotals(records=count, tokens=self._tokens[name]) for name, count in sorted(self._records.items())
        }
