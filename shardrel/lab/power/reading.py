"""Calls, as operations on the files below one folder. Pure. Source: schemas/SPEC.md#power-loss.

What is not understood and may have changed one of these files is refused: a trace is complete, or it is none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

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
from shardrel.lab.power.syscalls import Syscall, bad_trace, descriptor, path, read_calls, string

UNDERSTOOD = (
    "openat", "open", "creat", "write", "pwrite64", "lseek", "ftruncate", "truncate", "fsync", "fdatasync", "mkdir",
    "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mmap",
)  # fmt: skip
REFUSED = (
    "writev", "pwritev", "pwritev2", "fallocate", "copy_file_range", "sendfile", "splice", "symlink", "symlinkat",
    "mknod", "mknodat", "io_uring_setup",
)  # fmt: skip
TRACED = UNDERSTOOD + REFUSED
"""What strace has to record. ``sync`` and ``syncfs`` are left out: to take a file for less durable is no mistake."""


def read_operations(lines: Iterable[str], folder: str, marks: str) -> list[Operation]:
    """What strace saw happen below a folder.

    Args:
        lines: Its output.
        folder: Absolute, without a link in it.
        marks: The file that the process writes its marks to, absolute; one write a mark.

    Raises:
        InvalidInputError: ``input.corrupt``: a call is not understood, or a line is cut.
    """
    reader = _Reader(folder.rstrip("/"), marks)
    timed = [one for call in read_calls(lines) for one in reader.timed(call)]
    timed.sort(key=lambda one: one.at)
    return list(_overlapped(timed))


@dataclass(frozen=True, slots=True)
class _Timed:
    """An operation and the lines between which it took effect.

    What makes a name stands at its begin, so that it is there for others who saw it before its maker was told.
    """

    operation: Operation
    began: int
    ended: int

    @property
    def at(self) -> int:
        return self.began if isinstance(self.operation, MakeFolder | Create) else self.ended


def _overlapped(timed: list[_Timed]) -> Iterator[Operation]:
    for number, one in enumerate(timed):
        if not isinstance(one.operation, Sync):
            yield one.operation
            continue
        overlap = tuple(number - at for at in range(number) if timed[at].ended > one.began)
        yield replace(one.operation, overlap=overlap)


class _Reader:
    """Keeps where each open file is written to next."""

    def __init__(self, folder: str, marks: str) -> None:
        self._folder, self._marks = folder, marks
        self._next: dict[tuple[str, int], int | None] = {}
        self._reads: Mapping[str, Callable[[Syscall], Iterable[Operation]]] = {
            "openat": lambda call: self._opened(call, self._two(call, 0, 1), call.arguments[2]),
            "open": lambda call: self._opened(call, self._one(call, 0), call.arguments[1]),
            "creat": lambda call: self._opened(call, self._one(call, 0), "O_WRONLY|O_CREAT|O_TRUNC"),
            "write": self._written,
            "pwrite64": self._placed,
            "lseek": self._sought,
            "ftruncate": lambda call: self._about(self._held(call, 0), lambda at: Resize(at, int(call.arguments[1]))),
            "truncate": lambda call: self._about(self._one(call, 0), lambda at: Resize(at, int(call.arguments[1]))),
            "fsync": lambda call: self._about(self._held(call, 0), Sync),
            "fdatasync": lambda call: self._about(self._held(call, 0), Sync),
            "mkdir": lambda call: self._about(self._one(call, 0), MakeFolder),
            "mkdirat": lambda call: self._about(self._two(call, 0, 1), MakeFolder),
            "unlink": lambda call: self._about(self._one(call, 0), Unlink),
            "rmdir": lambda call: self._about(self._one(call, 0), Unlink),
            "unlinkat": lambda call: self._about(self._two(call, 0, 1), Unlink),
            "link": lambda call: self._both(self._one(call, 0), self._one(call, 1), Link),
            "linkat": lambda call: self._both(self._two(call, 0, 1), self._two(call, 2, 3), Link),
            "rename": lambda call: self._both(self._one(call, 0), self._one(call, 1), Rename),
            "renameat": lambda call: self._both(self._two(call, 0, 1), self._two(call, 2, 3), Rename),
            "renameat2": self._renamed,
            "mmap": self._mapped,
        }

    def timed(self, call: Syscall) -> list[_Timed]:
        """What a call did, and when."""
        read = self._reads.get(call.name, self._refused)
        return [_Timed(operation, call.began, call.ended) for operation in read(call)]

    def _below(self, absolute: str | None) -> str | None:
        if absolute is None or not f"{absolute}/".startswith(f"{self._folder}/"):
            return None
        return absolute[len(self._folder) + 1 :]

    def _one(self, call: Syscall, at: int) -> str | None:
        """A name that no descriptor stands beside is below the folder only where it is absolute."""
        text = call.arguments[at]
        return self._below(path(text)) if text.startswith('"\\x2f') else None

    def _two(self, call: Syscall, folder: int, name: int) -> str | None:
        return self._below(path(call.arguments[name], call.arguments[folder]))

    def _held(self, call: Syscall, at: int) -> str | None:
        return self._below(descriptor(call.arguments[at])[1])

    def _about(self, at: str | None, make: Callable[[str], Operation]) -> Iterable[Operation]:
        return () if at is None else (make(at),)

    def _both(
        self, source: str | None, target: str | None, make: Callable[[str, str], Operation]
    ) -> Iterable[Operation]:
        if (source is None) != (target is None):
            raise bad_trace("a name was moved into the recorded folder, or out of it")
        return () if source is None or target is None else (make(source, target),)

    def _opened(self, call: Syscall, at: str | None, flags: str) -> Iterable[Operation]:
        if at is None:
            return
        words = flags.split("|")
        if "O_TMPFILE" in words or "__O_TMPFILE" in words:
            raise bad_trace("files without a name are not modelled")
        plain = "O_WRONLY" in words and "O_APPEND" not in words
        self._next[at, descriptor(call.result)[0]] = 0 if plain else None
        if "O_CREAT" in words:
            yield Create(at)
        if "O_TRUNC" in words:
            yield Resize(at, 0)

    def _written(self, call: Syscall) -> Iterable[Operation]:
        number, absolute = descriptor(call.arguments[0])
        if absolute == self._marks:
            return (Mark(_payload(call).decode()),)
        at = self._below(absolute)
        if at is None:
            return ()
        offset, data = self._next.get((at, number)), _payload(call)
        if offset is None:
            raise bad_trace("where a file was written to is not known")
        self._next[at, number] = offset + len(data)
        return (Write(at, offset, data),)

    def _placed(self, call: Syscall) -> Iterable[Operation]:
        return self._about(self._held(call, 0), lambda at: Write(at, int(call.arguments[3]), _payload(call)))

    def _sought(self, call: Syscall) -> Iterable[Operation]:
        number, absolute = descriptor(call.arguments[0])
        place = (self._below(absolute) or "", number)
        if self._next.get(place) is not None:
            self._next[place] = int(call.result)
        return ()

    def _renamed(self, call: Syscall) -> Iterable[Operation]:
        found = self._both(self._two(call, 0, 1), self._two(call, 2, 3), Rename)
        if found and call.arguments[4] not in ("0", "RENAME_NOREPLACE"):
            raise bad_trace("names that change places are not modelled")
        return found

    def _mapped(self, call: Syscall) -> Iterable[Operation]:
        writes = "MAP_SHARED" in call.arguments[3] and "PROT_WRITE" in call.arguments[2]
        if writes and self._held(call, 4) is not None:
            raise bad_trace("a file of the recorded folder was mapped for writing")
        return ()

    def _refused(self, call: Syscall) -> Iterable[Operation]:
        held = [self._below(descriptor(argument)[1]) for argument in call.arguments]
        named = [self._one(call, at) for at in range(len(call.arguments))]
        if call.name == "io_uring_setup" or any(one is not None for one in (*held, *named)):
            raise bad_trace(f"{call.name} below the recorded folder is not modelled")
        return ()


def _payload(call: Syscall) -> bytes:
    """What was really written of what was handed over."""
    return string(call.arguments[1])[: int(call.result)]
