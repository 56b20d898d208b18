"""Columns as torch tensors, on the memory that they were gathered into. Source: schemas/SPEC.md#decoded-columns"""

from dataclasses import dataclass

import numpy as np
import torch

from shardrel.data.columns import Column
from shardrel.errors import ErrorCode, InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Rows of any length.

    Attributes:
        values: Shape (elements, …): the elements of all rows one after the other.
        ends: Shape (rows + 1,), int64: row i is ``values[ends[i]:ends[i + 1]]``.
    """

    values: torch.Tensor
    ends: torch.Tensor

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def lengths(self) -> torch.Tensor:
        """Shape (rows,), int64."""
        return self.ends.diff()

    def rows(self) -> tuple[torch.Tensor, ...]:
        """A tensor a row, none of them a copy."""
        sizes = np.diff(self.ends.numpy()).tolist()
        # Data has no gradient, so views that autograd doesn't follow do, at half the price.
        return tuple(torch.unsafe_split_with_sizes(self.values, sizes))

    def padded(self, length: int, pad: float, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """The first ``length`` elements of each row, shape (rows, length, …), filled up with ``pad``."""
        out = torch.full((len(self), length, *self.values.shape[1:]), pad, dtype=dtype)
        kept = self.lengths.clamp(max=length)
        row = torch.repeat_interleave(torch.arange(len(self)), kept)
        inside = torch.arange(len(row)) - torch.repeat_interleave(kept.cumsum(0) - kept, kept)
        out[row, inside] = _indexed(self.values, self.ends[row] + inside).to(dtype)
        return out

    def nested(self) -> torch.Tensor:
        """A jagged nested tensor on the same values."""
        return torch.nested.nested_tensor_from_jagged(self.values, self.ends)

    def pin_memory(self) -> "Ragged":
        """In page-locked memory; DataLoader calls it where it was told to."""
        return Ragged(values=self.values.pin_memory(), ends=self.ends.pin_memory())


def tensor_of(column: Column, name: str) -> torch.Tensor:
    """Rows of one shape as one tensor of shape (rows, …).

    Raises:
        InvalidInputError: ``input.column-type``: rows of different shapes, nulls, or no numbers.
    """
    if column.form.kind != "fixed" or column.values is None or _has_null(column):
        raise _refused(name, "only numbers, fixed-size lists and fixed binaries without nulls become one tensor")
    return torch.from_numpy(column.values)


def ragged_of(column: Column, name: str) -> Ragged:
    """Lists of numbers, strings or binaries as the elements of all rows, and where each row ends.

    Raises:
        InvalidInputError: ``input.column-type``: nulls, or elements that are no numbers.
    """
    if column.ends is None or column.values is None or _has_null(column):
        raise _refused(name, "only lists of numbers, strings and binaries without nulls have rows of any length")
    return Ragged(values=torch.from_numpy(column.values), ends=torch.from_numpy(column.ends))


def _has_null(column: Column) -> bool:
    return column.valid is not None and not bool(column.valid.all())


def _indexed(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Torch has no indexing of most unsigned types; the same bytes as signed ones do."""
    signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(values.dtype)
    return values[index] if signed is None else values.view(signed)[index].view(values.dtype)


def _refused(name: str, why: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_COLUMN_TYPE, why, column=name)
