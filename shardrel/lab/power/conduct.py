"""A whole drill of power loss. Source: schemas/SPEC.md#power-loss."""

from collections.abc import Callable, Iterator
from pathlib import Path

from shardrel.errors import ErrorCode, InternalError
from shardrel.lab.power.campaign import Campaign, Examined, replayer
from shardrel.lab.power.disk import Disk
from shardrel.lab.power.folder import read_image
from shardrel.lab.power.leaving_out import Kind, leaving_out
from shardrel.lab.power.marks import Recorded, parted
from shardrel.lab.power.recorder import record
from shardrel.lab.power.states import BOUNDS


def conduct(
    scratch: Path, *, only: str | None, every: int, left_out: Kind | None, progress: Callable[[str], None]
) -> Iterator[Examined]:
    """Record all transactions, and judge the states of each.

    Args:
        scratch: Fresh.
        only: Judge this transaction alone.
        every: Take every so manieth state.
        left_out: Of what was recorded; re-runs are left out too then.
        progress: Hears what is being done.

    Raises:
        InvalidInputError: ``input.invalid`` where there is no strace, or it may not trace.

    Effects: in the scratch folder.
    """
    progress("recording")
    story = record_story(scratch)
    campaign = Campaign(scratch, BOUNDS, every)
    replay = None if left_out else replayer(scratch, record)
    for one in story if only is None else [one for one in story if one.name == only]:
        progress(one.name)
        yield campaign.examine(one if left_out is None else leaving_out(one, left_out), replay)


def record_story(scratch: Path) -> list[Recorded]:
    """All transactions, as they really happened below ``scratch``.

    Raises:
        InternalError: ``internal.bug``: what was recorded does not come to what is there.
    """
    home = scratch.resolve() / "home"
    home.mkdir(mode=0o700)
    operations = record(scratch, home, {"task": "story", "folder": str(home)})
    disk = Disk({})
    for operation in operations:
        disk.apply(operation)
    if disk.visible != read_image(home):
        raise InternalError(ErrorCode.INTERNAL, "the recorded system calls do not come to the files that are there")
    return list(parted(operations))
