"""A disk below one folder: what is certainly on it, and what a process sees. Pure. Source: schemas/SPEC.md#power-loss.

Names and bytes are apart, as they are for a file system: making a file durable says nothing about its name, and making
a folder durable says nothing about the bytes of what it names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.power.contents import Contents, Edit
from shardrel.lab.power.operations import (
    Create,
    Link,
    MakeFolder,
    Mark,
    Operation,
    Rename,
    Resize,
    Sync,
    Unlink,
    Write,
)

ROOT = 0

Image = dict[str, bytes | None]
"""Files with their bytes and, with None, folders, by path."""

Place = tuple[int, str]
"""A folder's number and a name in it."""


@dataclass(frozen=True, slots=True)
class Change:
    """Names that change at once: all of them are on the disk, or none.

    Attributes:
        number: Of the operation; the later of two says what a name stands for.
        sets: A place, and the file or folder that it names then; None where it names nothing.
    """

    number: int
    sets: tuple[tuple[Place, int | None], ...]


class Disk:
    """Operations are applied to it one after the other."""

    def __init__(self, tree: Mapping[str, bytes | None]) -> None:
        """A disk that certainly holds this, and nothing else."""
        self._number = 0
        self._count = 1
        self.contents: dict[int, Contents] = {}
        self.durable: dict[Place, tuple[int, int | None]] = {}
        self.pending: list[Change] = []
        self._now: dict[Place, int | None] = {}
        for path in sorted(tree):
            data = tree[path]
            node = self._fresh(None if data is None else Contents(data))
            self._now[self._place(path)] = node
            self.durable[self._place(path)] = (-1, node)

    def copy(self) -> "Disk":
        """Another one in the same state."""
        other = Disk({})
        other._number, other._count = self._number, self._count
        other.contents, other.durable = dict(self.contents), dict(self.durable)
        other.pending, other._now = list(self.pending), dict(self._now)
        return other

    def apply(self, operation: Operation) -> None:
        """Do one thing.

        Raises:
            InvalidInputError: ``input.corrupt`` where the disk has nothing that this could have been done to.
        """
        match operation:
            case MakeFolder(path=path):
                self._name((self._place(path), self._fresh(None)))
            case Create(path=path):
                if self._at(path) is None:
                    self._name((self._place(path), self._fresh(Contents())))
            case Write(path=path, offset=offset, data=data):
                self._edit(path, offset, data)
            case Resize(path=path, size=size):
                self._edit(path, size, None)
            case Sync(path=path, overlap=overlap):
                self._sync(self._node(path), frozenset(self._number - back for back in overlap))
            case Link(source=source, target=target):
                self._name((self._place(target), self._node(source)))
            case Rename(source=source, target=target):
                node = self._node(source)
                if self._at(target) != node:  # two names of one file stay as they are
                    self._name((self._place(source), None), (self._place(target), node))
            case Unlink(path=path):
                self._node(path)
                self._name((self._place(path), None))
            case Mark():
                pass
        self._number += 1

    def image(self, chosen: Iterable[Change], contents: Mapping[int, bytes]) -> Image:
        """What is found when of the pending changes these are on the disk, and files hold this."""
        named = dict(self.durable)
        for change in chosen:
            for place, node in change.sets:
                if named.get(place, (-1, None))[0] <= change.number:
                    named[place] = (change.number, node)
        return self._walked({place: node for place, (_, node) in named.items()}, contents)

    @property
    def visible(self) -> Image:
        """What a process sees."""
        return self._walked(self._now, {node: one.now for node, one in self.contents.items()})

    def is_file(self, path: str) -> bool:
        """Whether a process sees a file there."""
        return self._at(path) in self.contents

    def passing(self) -> dict[Place, list[Change]]:
        """Names that were made and removed again, neither certainly on the disk: their changes, by name."""
        by_place: dict[Place, list[Change]] = {}
        for change in self.pending:
            for place, _ in change.sets:
                by_place.setdefault(place, []).append(change)
        return {
            place: changes
            for place, changes in by_place.items()
            if self._now.get(place) is None
            and self.durable.get(place, (-1, None))[1] is None
            and all(len(change.sets) == 1 for change in changes)
        }

    def _fresh(self, contents: Contents | None) -> int:
        node, self._count = self._count, self._count + 1
        if contents is not None:
            self.contents[node] = contents
        return node

    def _at(self, path: str) -> int | None:
        node: int | None = ROOT
        for part in path.split("/") if path else ():
            node = None if node is None else self._now.get((node, part))
        return node

    def _node(self, path: str) -> int:
        node = self._at(path)
        if node is None:
            raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "a recorded operation is about a file that is not there")
        return node

    def _place(self, path: str) -> Place:
        folder, _, name = path.rpartition("/")
        return self._node(folder), name

    def _name(self, *sets: tuple[Place, int | None]) -> None:
        self._now.update(sets)
        self.pending.append(Change(self._number, sets))

    def _edit(self, path: str, offset: int, data: bytes | None) -> None:
        node = self._node(path)
        self.contents[node] = self.contents[node].edited(Edit(self._number, offset, data))

    def _sync(self, node: int, but: frozenset[int]) -> None:
        if node in self.contents:
            self.contents[node] = self.contents[node].synced(min(but, default=self._number))
            return
        left = []
        for change in self.pending:
            if change.number not in but and any(place[0] == node for place, _ in change.sets):
                for place, named in change.sets:
                    if self.durable.get(place, (-1, None))[0] <= change.number:
                        self.durable[place] = (change.number, named)
            else:
                left.append(change)
        self.pending = [change for change in left if not self._void(change)]

    def _void(self, change: Change) -> bool:
        """Whether the disk certainly holds something later under all of its names."""
        return all(self.durable.get(place, (-1, None))[0] > change.number for place, _ in change.sets)

    def _walked(self, named: Mapping[Place, int | None], contents: Mapping[int, bytes]) -> Image:
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in named.items():
            if node is not None:
                below.setdefault(folder, []).append((name, node))
        found: Image = {}
        open_folders = [("", ROOT)]
        while open_folders:
            path, folder = open_folders.pop()
            for name, node in below.get(folder, ()):
                at = f"{path}/{name}" if path else name
                if node in self.contents:
                    found[at] = contents.get(node, self.contents[node].durable)
                else:
                    found[at] = None
                    open_folders.append((at, node))
        return found
