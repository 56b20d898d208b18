"""Ranks of a torch.distributed process group as the port of collective code. Source: schemas/SPEC.md#barriers."""

import torch
import torch.distributed as dist

from shardrel.errors import ErrorCode, RunFailedError, UnavailableError


def rank_gone() -> RunFailedError:
    """A collective failed. Whoever knows only the process group cannot say whose fault it is."""
    return RunFailedError(ErrorCode.RUN_RANK_FAILED, "a rank is gone or late", ranks=[]).ending_with(
        UnavailableError.exit_status
    )


class ProcessGroupRanks:
    """A ``Group`` over a process group for CPU tensors (gloo). Messages are bytes; nothing is pickled.

    The group of ``shardrel.train`` knows who is missing; this one knows only that somebody is.
    """

    def __init__(self, process_group: dist.ProcessGroup | None = None) -> None:
        self._group = process_group
        self.rank = dist.get_rank(process_group)
        self.world_size = dist.get_world_size(process_group)

    def exchange(self, message: bytes) -> list[bytes]:
        """Give one message, get those of all ranks.

        Raises:
            RunFailedError: ``run.rank-failed``: somebody is gone or late.

        Ranks: all.
        """
        try:
            return self._gathered(message)
        except RuntimeError as err:
            raise rank_gone() from err

    def _gathered(self, message: bytes) -> list[bytes]:
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(lengths, torch.tensor([len(message)]), group=self._group)
        room = max(int(length) for length in lengths)
        mine = torch.zeros(room, dtype=torch.uint8)
        mine[: len(message)] = torch.frombuffer(bytearray(message or b"\0"), dtype=torch.uint8)[: len(message)]
        parts = [torch.zeros(room, dtype=torch.uint8) for _ in range(self.world_size)]
        dist.all_gather(parts, mine, group=self._group)
        return [part[: int(n)].numpy().tobytes() for part, n in zip(parts, lengths, strict=True)]
