"""All drills, in the order in which they are run and shown."""

from collections.abc import Sequence

from shardrel.drills import anchors, gates, jobs, members, objects, publications, sealed
from shardrel.drills.drill import Drill
from shardrel.errors import ErrorCode, InvalidInputError

ALL = "all"
DRILLS: tuple[Drill, ...] = (
    *objects.DRILLS, *sealed.DRILLS, *members.DRILLS, *publications.DRILLS, *gates.DRILLS, *anchors.DRILLS,
    *jobs.DRILLS,
)  # fmt: skip


def chosen(name: str) -> Sequence[Drill]:
    """The drill of this name, or ``all`` of them.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if name == ALL:
        return DRILLS
    found = [drill for drill in DRILLS if drill.name == name]
    if not found:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "there is no such drill; run: shardrel drill", drill=name)
    return found
