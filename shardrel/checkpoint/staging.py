"""A copy of a state that training can't touch, in memory that is used again. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor

Path = tuple[Any, ...]


class Staging:
    """Copies of one state after the other; each ``copy`` overwrites what the one before gave.

    Fresh memory has to be cleared by the system page by page, which takes longer than the copy.
    """

    def __init__(self) -> None:
        self._buffers: dict[Path, torch.Tensor] = {}

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Copy all tensors and containers; numbers, strings and bytes can't change."""
        seen: set[Path] = set()
        made = {name: self._copied((name,), value, seen) for name, value in state.items()}
        for path in self._buffers.keys() - seen:
            del self._buffers[path]
        return made

    def _copied(self, path: Path, value: Any, seen: set[Path]) -> Any:
        if isinstance(value, DTensor):
            return self._sharded(path, value, seen)
        if isinstance(value, torch.Tensor):
            return self._plain(path, value.detach(), seen)
        if isinstance(value, dict):
            return {key: self._copied((*path, key), item, seen) for key, item in value.items()}
        if type(value) in (list, tuple):
            items = [self._copied((*path, index), item, seen) for index, item in enumerate(value)]
            return items if type(value) is list else tuple(items)
        return value

    def _sharded(self, path: Path, value: DTensor, seen: set[Path]) -> DTensor:
        local = self._plain(path, value.to_local().detach(), seen)
        return DTensor.from_local(
            local, value.device_mesh, value.placements, run_check=False, shape=value.shape, stride=value.stride()
        )

    def _plain(self, path: Path, value: torch.Tensor, seen: set[Path]) -> torch.Tensor:
        if value.layout != torch.strided or value.is_meta:
            return value  # the save refuses it by name
        seen.add(path)
        buffer = self._buffers.get(path)
        if buffer is None or (buffer.shape, buffer.dtype, buffer.device) != (value.shape, value.dtype, value.device):
            buffer = self._buffers[path] = torch.empty(value.shape, dtype=value.dtype, device=value.device)
        return buffer.copy_(value)
