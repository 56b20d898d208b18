"""Which files a SOURCE stands for: a file, a folder or a glob. Source: schemas/SPEC.md#sources.

Nothing is dropped silently: a file in a folder whose format nobody knows is an error that names
it. Only names that begin with a dot stay out of a folder, and files of an unknown format with an underscore first, as
Spark, Hive and Arrow name what is no data (``_SUCCESS``). A folder with an underscore first may be one or the other and is
an error; a glob means what it means to a shell.
"""

import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardrel.errors import ErrorCode, InvalidInputError

SUFFIXES = (
    ".parquet", ".arrow", ".feather", ".ipc", ".arrows",
    ".jsonl", ".ndjson", ".jsonl.zst", ".ndjson.zst", ".jsonl.gz", ".ndjson.gz",
)  # fmt: skip
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class SourcePath:
    """One file of a source.

    Attributes:
        path: Where it is.
        relative: Its POSIX path relative to the SOURCE that named it; for a single file its name.
    """

    path: Path
    relative: str


def suffix_of(path: Path) -> str | None:
    """The longest known suffix of a file's name, in lower case; None when its format is unknown."""
    name = path.name.lower()
    return max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default=None)


def list_files(sources: Sequence[str]) -> list[SourcePath]:
    """All files of all sources: each SOURCE's in byte order of their relative paths.

    Args:
        sources: Files, folders (taken whole, recursively) and globs (``**`` crosses folders; relative
            to the part of the path before the first wild card).

    Raises:
        InvalidInputError: ``input.no-such-file`` (absent, or a glob or folder without files),
            ``input.unknown-format`` (a file whose suffix is not known), ``input.invalid`` (a file that
            two sources name, a name that is not UTF-8, a link to a folder, not a regular file).
    """
    found: list[SourcePath] = []
    seen: set[str] = set()
    for source in sources:
        try:
            members = sorted(_expand(source), key=lambda member: os.fsencode(member.relative))
        except OSError as err:
            raise _unreadable(source, err) from err
        if not members:
            raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"there is no file in {source!r}", path=source)
        for member in members:
            _admit(member, seen)
            _check_format(member, source, members)
        found += members
    return found


def _expand(source: str) -> Iterator[SourcePath]:
    path = Path(source)
    if not source:
        # What a script has for a variable that is not set is not the current folder.
        return
    if path.is_dir():
        yield from (SourcePath(file, file.relative_to(path).as_posix()) for file in _walk(path, notes=False))
    elif path.exists() or not _WILD & set(source):
        yield SourcePath(path, path.name)
    else:
        yield from _glob(source)


def _walk(folder: Path, *, notes: bool) -> Iterator[Path]:
    """All files below a folder; without ``notes`` not those that others leave beside data."""
    for entry in _entries(folder):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            if notes or not entry.name.startswith("_") or suffix_of(Path(entry.path)) is not None:
                yield Path(entry.path)
        elif notes or not entry.name.startswith("_"):
            yield from _walk(_no_link(entry), notes=notes)
        else:
            raise InvalidInputError(
                ErrorCode.INPUT_INVALID,
                f"{entry.path} may hold data or notes of another program (a table's log, what a job left behind); "
                "name the files that are meant, or a glob",
                path=entry.path,
            )


def _no_link(entry: "os.DirEntry[str]") -> Path:
    """A folder that was found; a link to one may lead anywhere, round in circles too."""
    if entry.is_symlink():
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            f"{entry.path} is a link to a folder; name that folder as a SOURCE",
            path=entry.path,
        )
    return Path(entry.path)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE, f"{folder} can't be listed: {err.strerror}", path=str(folder)
        ) from err


def _glob(pattern: str) -> Iterator[SourcePath]:
    parts = Path(pattern).parts
    wild = next(at for at, part in enumerate(parts) if _WILD & set(part))
    base = Path(*parts[:wild]) if wild else Path()
    if base.is_dir() and not pattern.endswith("/"):
        # Two ways may lead to one file, as in ``**/**``.
        for path in dict.fromkeys(_matches(base, parts[wild:])):
            yield SourcePath(path, path.relative_to(base).as_posix())


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Files below a folder that a pattern means; the library's own passes over a folder that it cannot list."""
    part, *rest = parts
    if part == "**":
        yield from _matches(folder, rest) if rest else _walk(folder, notes=True)
        if rest:
            for entry in _entries(folder):
                if entry.is_dir() and not entry.name.startswith("."):
                    yield from _matches(_no_link(entry), parts)
    elif _WILD & set(part):
        for entry in _entries(folder):
            if fnmatch.fnmatchcase(entry.name, part) and entry.name.startswith(".") <= part.startswith("."):
                yield from _below(Path(entry.path), rest, is_folder=entry.is_dir())
    elif os.path.lexists(folder / part):
        yield from _below(folder / part, rest, is_folder=os.path.isdir(folder / part))


def _below(path: Path, rest: Sequence[str], *, is_folder: bool) -> Iterator[Path]:
    if rest and is_folder:
        yield from _matches(path, rest)
    elif not rest and not is_folder:
        yield path


def _check_format(member: SourcePath, source: str, beside: Sequence[SourcePath]) -> None:
    if suffix_of(member.path) is not None:
        return
    message = f"{member.path} has none of the suffixes {', '.join(SUFFIXES)}"
    if len(beside) > 1:
        known = next((suffix for one in beside if (suffix := suffix_of(one.path))), SUFFIXES[0])
        base = str(member.path)[: -len(member.relative)] or "./"
        message += f"; a glob picks files, such as '{base}**/*{known}'"
    raise InvalidInputError(ErrorCode.INPUT_UNKNOWN_FORMAT, message, path=str(member.path), source=source)


def _admit(member: SourcePath, seen: set[str]) -> None:
    """One file may stand for one source only, and must be one that can be read."""
    name = member.relative.encode("utf-8", "replace").decode()
    try:
        member.relative.encode("utf-8", "strict")
        mode = member.path.stat().st_mode
    except UnicodeEncodeError as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"the file name {name} is not UTF-8", path=name) from err
    except OSError as err:
        raise _unreadable(str(member.path), err) from err
    if not stat.S_ISREG(mode):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{member.path} is not a regular file", path=str(member.path))
    real = os.path.realpath(member.path)
    if real in seen:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{member.path} is named twice", path=str(member.path))
    seen.add(real)


def _unreadable(path: str, err: OSError) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read: {err.strerror}", path=path)
