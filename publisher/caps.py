"""What a shard may have at most, so that any verifier reads it. Source: schemas/SPEC.md#root-manifest"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc

from shardrel.errors import ErrorCode, InvalidInputError

MAX_STORED = 2 << 30
MAX_LOGICAL = 4 << 30
MAX_RECORDS = 1 << 24
MAX_IDS = 1 << 30


def within(name: str, value: int, most: int) -> None:
    """Refuse what passes a cap.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if value > most:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"a shard would have {value} {name}, at most are {most}: publish with more shards"
        )


def ids_within(groups: Iterable[Any]) -> Iterator[Any]:
    """The groups of a shard, whose sample ids, in the first column, are within their cap.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    total = 0
    for group in groups:
        total += pc.sum(pc.binary_length(group.column(0))).as_py() or 0
        within("bytes of sample ids", total, MAX_IDS)
        yield group
