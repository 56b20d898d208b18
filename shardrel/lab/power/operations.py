"""What a process did to the files below one folder, in the order in which it took effect. Pure.

Paths are relative to that folder, with ``/``; the folder itself is the empty path. Source: schemas/SPEC.md#power-loss.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class MakeFolder:
    """A new folder."""

    path: str


@dataclass(frozen=True, slots=True)
class Create:
    """A new, empty file; nothing where one is."""

    path: str


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes of a file, from a place on."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """Another size of a file; what is new is zero."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A file's bytes and size, or a folder's names, were made durable.

    Attributes:
        overlap: How far back each operation lies that took effect only after this one began. It vouches for none of them.
    """

    path: str
    overlap: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A further name of a file."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Another name in place of the one; what had it is replaced."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name of a file, or an empty folder, is gone."""

    path: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that the process said about itself; it touches no file."""

    text: str


Operation = MakeFolder | Create | Write | Resize | Sync | Link | Rename | Unlink | Mark


def below(operation: Operation, folder: str) -> Operation | None:
    """The operation as it is seen from a folder; None where it is about something outside of it."""
    match operation:
        case Mark():
            return operation
        case Link() | Rename():
            source, target = _relative(operation.source, folder), _relative(operation.target, folder)
            return None if source is None or target is None else replace(operation, source=source, target=target)
        case _:
            path = _relative(operation.path, folder)
            return None if path is None else replace(operation, path=path)


def _relative(path: str, folder: str) -> str | None:
    return path[len(folder) + 1 :] if f"{path}/".startswith(f"{folder}/") else None
