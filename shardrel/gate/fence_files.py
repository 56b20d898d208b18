"""Files of fence entries that people hand in: JSONL, an entry a line. Source: schemas/SPEC.md#fence-logs.

An error names the line and never what stands in it: a line is sample ids, or a benchmark's text.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from shardrel.canonical.text import SHINGLE_WORDS, shingles, text_digest
from shardrel.digest import to_digest
from shardrel.errors import ErrorCode, FormatError, InvalidInputError
from shardrel.records.fence import MAX_WORDS, MIN_WORDS, BenchmarkEntry, Shingles, TombstoneEntry
from shardrel.records.fields import DigestField, Positive, ReasonCode, in_words
from shardrel.trust.strict import parse_object

_MAX_LINE = 1024 * 1024
_MAX_ID = 1024
_UNKNOWN = "unknown field"

_Value = int | str
_Entry = TypeVar("_Entry", TombstoneEntry, BenchmarkEntry)


class _TombstoneLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    sequence: Positive
    sample_id: _Value | None = None
    source_id: _Value | None = None
    source_version: _Value | None = None
    content_digest: DigestField | None = None
    reason: ReasonCode | None = None


class _BenchmarkLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    sequence: Positive
    benchmark: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    text: str | None = None
    words: Annotated[int, msgspec.Meta(ge=MIN_WORDS, le=MAX_WORDS)] | None = None
    least: Positive | None = None
    content_digest: DigestField | None = None
    text_digest: DigestField | None = None


_Line = TypeVar("_Line", _TombstoneLine, _BenchmarkLine)


def read_tombstones(path: Path) -> list[TombstoneEntry]:
    """Read a file of tombstones.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.empty-file``, ``input.fence-entry`` with the line.
    """
    return _read(path, _tombstone)


def read_benchmarks(path: Path) -> list[BenchmarkEntry]:
    """Read a file of benchmark items; of a text only digests stay.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.empty-file``, ``input.fence-entry`` with the line.
    """
    return _read(path, _benchmark)


def _read(path: Path, parse: Callable[[bytes], _Entry]) -> list[_Entry]:
    entries: list[_Entry] = []
    for number, line in _lines(path):
        try:
            entry = parse(line)
        except FormatError as err:
            raise _bad(number, f"a line is not a fence entry: {err.message}") from err
        except ValueError as err:
            raise _bad(number, f"a line is not a fence entry: {err}") from err
        if entries and entry.sequence != entries[-1].sequence + 1:
            raise _bad(number, "sequences go up by one from line to line")
        entries.append(entry)
    if not entries:
        raise InvalidInputError(ErrorCode.INPUT_EMPTY_FILE, "the file has no entries", file=path.name)
    return entries


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MAX_LINE + 1):
                number += 1
                if len(line) > _MAX_LINE:
                    raise _bad(number, f"a line has at most {_MAX_LINE} bytes")
                if line.strip():
                    yield number, line
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, "the file cannot be read", file=str(path)) from err


def _tombstone(line: bytes) -> TombstoneEntry:
    found = _converted(line, _TombstoneLine)
    selectors = (found.sample_id, found.source_id, found.content_digest)
    if sum(value is not None for value in selectors) != 1:
        raise ValueError("it needs one of sampleId, sourceId and contentDigest, and one alone")
    if found.source_version is not None and found.source_id is None:
        raise ValueError("sourceVersion stands beside a sourceId")
    return TombstoneEntry(
        sequence=found.sequence,
        sample_id=_sample_id(found.sample_id),
        source_id=_canonical(found.source_id),
        source_version=_canonical(found.source_version),
        content_digest=found.content_digest,
        reason=found.reason,
    )


def _benchmark(line: bytes) -> BenchmarkEntry:
    found = _converted(line, _BenchmarkLine)
    selectors = (found.text, found.text_digest, found.content_digest)
    if sum(value is not None for value in selectors) != 1:
        raise ValueError("it needs one of text, textDigest and contentDigest, and one alone")
    if found.text is None and (found.words, found.least) != (None, None):
        raise ValueError("words and least stand beside a text")
    digest, grams = (
        (found.text_digest, None) if found.text is None else text_selectors(found.text, found.words, found.least)
    )
    return BenchmarkEntry(
        sequence=found.sequence,
        benchmark=found.benchmark,
        content_digest=found.content_digest,
        text_digest=digest,
        shingles=grams,
    )


def text_selectors(text: str, words: int | None = None, least: int | None = None) -> tuple[str, Shingles | None]:
    """What an entry keeps of a benchmark text: its digest, and its shingles where it has enough words.

    Args:
        text: Has words.
        words: Of a shingle; None is 13.
        least: How many shingles one text has to share; None is 1.
    """
    raw = text_digest(text)
    if raw is None:
        raise ValueError("the text has no words")
    n = words or SHINGLE_WORDS
    found = sorted({gram.digest.hex(): gram.screen for gram in shingles(text, n)}.items())
    if not found:
        return to_digest(raw), None
    grams = Shingles(
        words=n,
        least=least or 1,
        digests=tuple(digest for digest, _ in found),
        screens="".join(f"{screen:08x}" for _, screen in found),
    )
    return to_digest(raw), grams


def _canonical(value: _Value | None) -> str | None:
    """Integers in decimal, so that 7 and "7" are one."""
    return None if value is None else str(value)


def _sample_id(value: _Value | None) -> str | None:
    text = _canonical(value)
    if text is not None and not 0 < len(text.encode()) <= _MAX_ID:
        raise ValueError("a sample id has 1 to 1024 bytes")
    return text


def _converted(line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.convert(parse_object(line, max_bytes=_MAX_LINE), kind)
    except msgspec.ValidationError as err:
        raise ValueError(_reason(str(err), kind)) from err


def _reason(said: str, kind: type[_Line]) -> str:
    """What is wrong, in words that hold names and types of fields and nothing that stands in the line."""
    if _UNKNOWN in said:
        return f"the fields of an entry are {', '.join(kind.__struct_encode_fields__)}"
    return in_words(said).replace("`", "").replace(" - at $.", ", in ")


def _bad(number: int, message: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_FENCE_ENTRY, message, line=number)
