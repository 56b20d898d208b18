"""What a file may hold after power was lost. Pure. Source: schemas/SPEC.md#power-loss."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SECTOR = 512


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes from an offset on, or, without bytes, another size."""

    number: int
    offset: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Contents:
    """A file: what is certainly on the disk, and what was done since.

    Attributes:
        durable: Its bytes when it was last made durable.
        edits: Oldest first.
    """

    durable: bytes = b""
    edits: tuple[Edit, ...] = ()

    @property
    def now(self) -> bytes:
        """What a process reads."""
        return self.versions[-1]

    @property
    def versions(self) -> list[bytes]:
        """The durable bytes, and the bytes after each edit."""
        made = [self.durable]
        for edit in self.edits:
            made.append(_edited(made[-1], edit))
        return made

    def edited(self, edit: Edit) -> "Contents":
        """One edit more."""
        return Contents(self.durable, (*self.edits, edit))

    def synced(self, before: int) -> "Contents":
        """Edits with a smaller number are durable."""
        done = tuple(edit for edit in self.edits if edit.number < before)
        return Contents(Contents(self.durable, done).now, self.edits[len(done) :])


def variants(contents: Contents, limit: int) -> list[bytes]:
    """What may be found, without what is found twice: those of now last, the durable bytes first where they are others.

    Each size that the file had, or a sector's end between two of them; in each sector, independently, the bytes of
    one of the versions, zeros where a version did not reach so far. All of it up to ``limit`` combinations, else the
    extremes: everything old, everything new, and one sector (first, middle, last) unlike the others.
    """
    if not contents.edits:
        return [contents.durable]
    versions = contents.versions
    sizes = _sizes(versions)
    longest = max(sizes)
    sectors = [_sector(versions, start) for start in range(0, longest, SECTOR)]
    made: Iterator[bytes]
    if len(sizes) * math.prod(map(len, sectors)) <= limit:
        made = (b"".join(parts)[:size] for size in sizes for parts in itertools.product(*sectors))
    else:
        made = _extremes(sizes, sectors)
    found = dict.fromkeys(itertools.chain([versions[0]], made))
    found.pop(versions[-1], None)
    return [*found, versions[-1]]


def _edited(data: bytes, edit: Edit) -> bytes:
    if edit.data is None:
        return data[: edit.offset].ljust(edit.offset, b"\0")
    end = edit.offset + len(edit.data)
    return data[: edit.offset].ljust(edit.offset, b"\0") + edit.data + data[end:]


def _sizes(versions: Sequence[bytes]) -> list[int]:
    had = {len(version) for version in versions}
    ends = range(-(-min(had) // SECTOR) * SECTOR, max(had), SECTOR)
    return sorted(had | set(ends))


def _sector(versions: Sequence[bytes], start: int) -> list[bytes]:
    """Bytes that a sector may hold: oldest first."""
    return list(dict.fromkeys(version[start : start + SECTOR].ljust(SECTOR, b"\0") for version in versions))


def _extremes(sizes: Sequence[int], sectors: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
    old, new = b"".join(sector[0] for sector in sectors), b"".join(sector[-1] for sector in sectors)
    for size in dict.fromkeys([*sizes[:3], *sizes[-3:]]):
        yield old[:size]
        yield new[:size]
    for at in dict.fromkeys((0, len(sectors) // 2, len(sectors) - 1)):
        start, end = at * SECTOR, (at + 1) * SECTOR
        yield (old[:start] + new[start:end] + old[end:])[: sizes[-1]]
        yield (new[:start] + old[start:end] + new[end:])[: sizes[-1]]
