"""What was recorded, without some of what made it durable: shows that a drill notices. Pure."""

from dataclasses import replace
from enum import StrEnum

from shardrel.lab.power.disk import Disk
from shardrel.lab.power.marks import Recorded
from shardrel.lab.power.operations import Mark, Operation, Sync


class Kind(StrEnum):
    """Of what is left out."""

    FILE = "file"
    """Making bytes of files durable."""
    FOLDER = "folder"
    """Making names in folders durable."""


def leaving_out(recorded: Recorded, kind: Kind, below: str = "") -> Recorded:
    """The transaction as it would be if a program forgot this; only for paths that begin so."""
    disk, made = Disk(recorded.before), list[Operation]()
    for operation in recorded.operations:
        forgotten = (
            isinstance(operation, Sync)
            and operation.path.startswith(below)
            and disk.is_file(operation.path) == (kind is Kind.FILE)
        )
        made.append(Mark("{}") if forgotten else operation)
        disk.apply(operation)
    return replace(recorded, operations=tuple(made))
