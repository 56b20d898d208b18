"""Lines of strace, as calls. Pure. Source: schemas/SPEC.md#power-loss.

It was run with ``-f -y -xx`` and an ``-s`` that cuts nothing: every string and every path is in hexadecimal, so a comma
parts arguments and a quotation mark ends a string.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError

_LINE = re.compile(r"(\d+) +(.*)")
_WHOLE = re.compile(r"(\w+)\((.*)\) += (.*)")
_BEGUN = re.compile(r"(\w+)\((.*?),? ?<unfinished \.\.\.>")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>,? ?(.*)")
_DESCRIPTOR = re.compile(r"(-?\w+)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(frozen=True, slots=True)
class Syscall:
    """A call that did what it was asked for.

    Attributes:
        began: Number of the line on which it is first seen.
        ended: Of the line that has its result; another than ``began`` where others came in between.
    """

    name: str
    arguments: tuple[str, ...]
    result: str
    began: int
    ended: int


def read_calls(lines: Iterable[str]) -> Iterator[Syscall]:
    """The calls that succeeded, in the order in which they ended.

    Raises:
        InvalidInputError: ``input.corrupt``.
    """
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            raise bad_trace("a line of the trace does not begin with a process")
        process, text = found[1], found[2]
        if text.startswith(("+++", "---")):
            continue
        if half := _BEGUN.match(text):
            begun[process] = (number, f"{half[1]}({half[2]}")
            continue
        began = number
        if rest := _RESUMED.match(text):
            began, first = begun.pop(process, (number, ""))
            joint = "" if rest[2].startswith(")") or first.endswith("(") else ", "
            text = first + joint + rest[2]
        if (call := _whole(text, began, number)) is not None:
            yield call


def bad_trace(message: str) -> InvalidInputError:
    """The error of a trace that says something that is not understood."""
    return InvalidInputError(ErrorCode.INPUT_CORRUPT, message)


def string(argument: str) -> bytes:
    """The bytes of an argument in quotation marks.

    Raises:
        InvalidInputError: ``input.corrupt``, also where it was cut.
    """
    found = _STRING.fullmatch(argument)
    if found is None:
        raise bad_trace("a string of the trace is cut or is none")
    return bytes.fromhex(found[1].replace("\\x", ""))


def descriptor(argument: str) -> tuple[int, str | None]:
    """Number and path of a descriptor, -100 for the current folder; no path where it is no file that has a name."""
    found = _DESCRIPTOR.fullmatch(argument)
    if found is None:
        return -1, None
    number = -100 if found[1] == "AT_FDCWD" else int(found[1])
    path = bytes.fromhex(found[2].replace("\\x", "")).decode("utf-8", "surrogateescape")
    return number, None if found[3] else path


def path(argument: str, folder: str | None = None) -> str:
    """The absolute path of a name, looked up from a descriptor's folder.

    Raises:
        InvalidInputError: ``input.corrupt`` where it cannot be told.
    """
    name = string(argument).decode("utf-8", "surrogateescape")
    if name.startswith("/"):
        return posixpath.normpath(name)
    base = None if folder is None else descriptor(folder)[1]
    if base is None:
        raise bad_trace("a name of the trace is relative to a folder that is not known")
    return posixpath.normpath(posixpath.join(base, name))


def _whole(text: str, began: int, ended: int) -> Syscall | None:
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise bad_trace("a line of the trace is no call")
    if found[3].startswith(("-1", "?")):
        return None
    return Syscall(found[1], tuple(found[2].split(", ")), found[3], began, ended)
