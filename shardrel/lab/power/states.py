"""The states that a disk may be found in after power was lost. Pure. Source: schemas/SPEC.md#power-loss."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardrel.lab.power.contents import variants
from shardrel.lab.power.disk import Change, Disk, Image

Key = frozenset[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far states are enumerated.

    Attributes:
        states: Of one crash point, up to which every combination is made.
        contents: Of one file, the same.
    """

    states: int = 256
    contents: int = 16


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class _Option:
    """What one independent choice comes to: changes that are on the disk, or the bytes of a file."""

    changes: tuple[Change, ...] = ()
    contents: tuple[tuple[int, bytes], ...] = ()


_NOTHING = _Option()


def key(image: Image) -> Key:
    """What two equal states have in common."""
    return frozenset(image.items())


def combinations(disk: Disk, bounds: Bounds = BOUNDS) -> int:
    """How many combinations of independent choices there are; above ``bounds.states`` not all of them are made."""
    return _size([*_single(disk.pending), *_files(disk, bounds)])


def crash_states(disk: Disk, bounds: Bounds = BOUNDS) -> dict[Key, Image]:
    """Every state that the disk may be found in; within the bounds where there are too many."""
    axes = [*_single(disk.pending), *_files(disk, bounds)]
    if _size(axes) > bounds.states:
        axes = [*_grouped(disk), *_files(disk, bounds)]
    vectors = itertools.product(*axes) if _size(axes) <= bounds.states else _bounded(axes)
    found: dict[Key, Image] = {}
    for vector in vectors:
        image = disk.image(
            (change for option in vector for change in option.changes),
            dict(pair for option in vector for pair in option.contents),
        )
        found.setdefault(key(image), image)
    return found


def _size(axes: Sequence[Sequence[_Option]]) -> int:
    return math.prod(map(len, axes))


def _single(changes: Sequence[Change]) -> list[list[_Option]]:
    return [[_NOTHING, _Option(changes=(change,))] for change in changes]


def _files(disk: Disk, bounds: Bounds) -> list[list[_Option]]:
    return [
        [_Option(contents=((node, data),)) for data in variants(contents, bounds.contents)]
        for node, contents in disk.contents.items()
        if contents.edits
    ]


def _grouped(disk: Disk) -> list[list[_Option]]:
    """Names that came and went are one choice: none of them is there, all, only the first, only the last."""
    passing = disk.passing()
    gone = {id(change) for changes in passing.values() for change in changes}
    made = [changes[0] for changes in passing.values()]
    axes = _single([change for change in disk.pending if id(change) not in gone])
    if made:
        options = [_NOTHING, *(_Option(changes=(one,)) for one in dict.fromkeys((made[0], made[-1])))]
        axes.append([*options, _Option(changes=tuple(made))])
    return axes


def _bounded(axes: Sequence[Sequence[_Option]]) -> Iterator[Sequence[_Option]]:
    """All lost, all kept; every prefix; one choice, and two, unlike all others."""
    lost, kept = [axis[0] for axis in axes], [axis[-1] for axis in axes]
    for length in range(len(axes) + 1):
        yield [*kept[:length], *lost[length:]]
    for base in (lost, kept):
        for at, axis in enumerate(axes):
            for option in axis:
                yield [*base[:at], option, *base[at + 1 :]]
    for base, other in ((lost, kept), (kept, lost)):
        for one, two in itertools.combinations(range(len(axes)), 2):
            yield [other[at] if at in (one, two) else base[at] for at in range(len(axes))]
