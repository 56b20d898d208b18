"""What a verb answers, and how people and scripts get to see it.

Scripts (``--json``) get exactly one JSON object on stdout. People get a headline, facts and tables.
Progress goes to stderr, and only where that is a terminal.
"""

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows for people."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Answer of a verb.

    Attributes:
        data: The JSON object of ``--json``; its keys are a contract.
        headline: One sentence for people.
        sentences: More of them, a paragraph each.
        facts: Name and value pairs for people.
        tables: More for people.
        status: Exit status.
    """

    data: Mapping[str, Any]
    headline: str
    sentences: Sequence[str] = ()
    facts: Sequence[tuple[str, object]] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    status: int = 0


def open_streams(*, as_json: bool) -> None:
    """Make stdout and stderr take any text, whatever their encoding, and be there where a caller closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
        elif isinstance(stream, io.TextIOWrapper):
            # A JSON text is UTF-8; and an escaped surrogate, as of a path that is not UTF-8, is valid in one.
            encoding = "utf-8" if as_json and name == "stdout" else None
            with suppress(OSError):
                stream.reconfigure(encoding=encoding, errors="backslashreplace")


def write_json(value: Mapping[str, Any]) -> bool:
    """One JSON object on stdout, flushed.

    Returns:
        Whether stdout took it; where it did not, stderr says why.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return _flushed(lambda: sys.stdout.write(text))


def write_result(result: Result, *, as_json: bool) -> bool:
    """Show a verb's answer; it is flushed when this returns.

    Returns:
        As ``write_json``.
    """
    return write_json(result.data) if as_json else _flushed(lambda: sys.stdout.write(_for_people(result)))


def _flushed(write: Callable[[], object]) -> bool:
    """Write to stdout; where it is full or closed, leave nothing for a later flush to stumble over."""
    try:
        write()
        sys.stdout.flush()
    except OSError as err:
        _drop(sys.stdout)
        # Whoever closed the pipe has seen what they wanted.
        if not isinstance(err, BrokenPipeError):
            reason = os.strerror(err.errno) if err.errno else type(err).__name__
            _to_stderr(f"shardrel: the answer can't be written: {reason}\n")
        return False
    return True


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _drop(stream: Any) -> None:
    """Send what is still in the stream's buffer, and whatever follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != stream.fileno():
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _for_people(result: Result) -> str:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, emoji=False)
    # Caught, since rich ends the process where a pipe is closed.
    with console.capture() as caught:
        _print(console, result)
    return caught.get()


def _print(console: "Console", result: Result) -> None:
    colour = "green" if result.status == 0 else "red"
    console.print(visible(result.headline), style=f"bold {colour}", markup=False)
    for sentence in result.sentences:
        console.print(visible(sentence), markup=False)
    width = max((len(name) for name, _ in result.facts), default=0)
    for name, value in result.facts:
        console.print(f"  {name:<{width}}  {visible(value)}", markup=False)
    for table in result.tables:
        header, *rows = _lines(table)
        console.print()
        if table.title:
            console.print(visible(table.title), style="bold", markup=False)
        if header:
            console.print(header, style="dim", markup=False)
        for row in rows:
            console.print(row, markup=False)


def _lines(table: Table) -> list[str]:
    """Header and rows, their columns in line; nothing is cut or wrapped, so that a digest can be copied."""
    rows = [[visible(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def visible(value: object) -> str:
    """The text, with escapes for what would move the cursor or break the line: ids and names are anybody's."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def write_error(code: str, message: str, context: Mapping[str, Any], *, as_json: bool) -> None:
    """Show a refusal: the JSON error object on stdout, or lines for people on stderr."""
    context = spelled(context)
    if as_json:
        write_json({"error": {"code": code, "message": message, "context": context}})
        return
    lines = ["\n".join(visible(line) for line in f"shardrel: {message}".splitlines()), f"  code: {code}"]
    for name, value in context.items():
        if value is not None and value != []:
            values = value if isinstance(value, list) else [value]
            lines.append(f"  {name}: {', '.join(visible(one) for one in values)}")
    _to_stderr("\n".join(lines) + "\n")


def spelled(context: Mapping[str, Any]) -> dict[str, Any]:
    """A context with its names as all names in JSON are, whatever the code calls them."""
    return {re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda at: at[1].upper(), name): said for name, said in context.items()}


class Meter:
    """Progress of one verb; says nothing where stderr is no terminal."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show that ``done`` of ``total`` are through."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)


@contextmanager
def meter(what: str, *, quiet: bool) -> Iterator[Meter]:
    """A progress bar on stderr while the block runs."""
    if quiet or not sys.stderr.isatty():
        yield Meter(None, None)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield Meter(bar, bar.add_task(what, total=None))
