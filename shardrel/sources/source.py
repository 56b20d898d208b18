"""The port of source files, and what all formats share. Source: schemas/SPEC.md#sources."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError

BATCH_BYTES = 32 * 1024 * 1024


class SourceFile(Protocol):
    """One file of records. Reading it again gives the same records, or an error."""

    @property
    def path(self) -> Path:
        """Where the file is."""
        ...

    @property
    def schema(self) -> Any:
        """``pa.Schema`` as the file declares it (JSON Lines: as inferred over the whole file)."""
        ...

    @property
    def num_rows(self) -> int | None:
        """Number of records where the file declares it before it is read."""
        ...

    @property
    def digest(self) -> Digest:
        """SHA-256 of the file's bytes, streamed when first asked for."""
        ...

    def batches(self, target: Any = None, batch_bytes: int = BATCH_BYTES) -> Iterator[Any]:
        """The records in order, as ``pa.RecordBatch`` of about ``batch_bytes`` decoded bytes.

        Args:
            target: ``pa.Schema`` that JSON Lines are read into (that of several files together); the
                formats that carry a schema ignore it.
            batch_bytes: Bound of a batch; a single record may pass it.

        Raises:
            InvalidInputError: ``input.truncated``, ``input.corrupt``, ``input.json-line``, ``input.invalid-utf8``,
                ``source.changed-while-read``; each names the file and, where known, the row.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells that a file was replaced or written to while it was read."""

    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> "Fingerprint":
        """Of the file as it is now.

        Raises:
            InvalidInputError: ``input.no-such-file``.
        """
        try:
            facts = os.stat(path)
        except OSError as err:
            raise InvalidInputError(
                ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read: {err.strerror}", path=str(path)
            ) from err
        return cls(facts.st_size, facts.st_mtime_ns, facts.st_ino)

    def check(self, path: Path) -> None:
        """Refuse a file that is no longer what it was.

        Raises:
            InvalidInputError: ``source.changed-while-read``.
        """
        try:
            same = Fingerprint.of(path) == self
        except InvalidInputError:
            same = False
        if not same:
            raise changed(path)


def changed(path: Path) -> InvalidInputError:
    """The error for a file that gave other bytes the second time."""
    return InvalidInputError(
        ErrorCode.SOURCE_CHANGED, f"{path} changed while it was read; run the command again", path=str(path)
    )


def stream_digest(path: Path, fingerprint: Fingerprint) -> Digest:
    """SHA-256 of a file's bytes in bounded memory; the file must stay what it is meanwhile."""
    with open_binary(path) as file:
        state = hashlib.file_digest(file, "sha256")
    fingerprint.check(path)
    return Digest("sha256:" + state.hexdigest())


def open_binary(path: Path) -> Any:
    """Open for reading, translated.

    Raises:
        InvalidInputError: ``input.no-such-file``.
    """
    try:
        return open(path, "rb", buffering=0)
    except OSError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read: {err.strerror}", path=str(path)
        ) from err


def empty_file(path: Path) -> InvalidInputError:
    """The error for a file of zero bytes, which no format allows."""
    return InvalidInputError(ErrorCode.INPUT_EMPTY_FILE, f"{path} has no bytes at all", path=str(path))


def truncated(path: Path, what: str) -> InvalidInputError:
    """The error for a file that ends too early."""
    return InvalidInputError(ErrorCode.INPUT_TRUNCATED, f"{path} is cut: {what}", path=str(path))


def corrupt(path: Path, what: str) -> InvalidInputError:
    """The error for a file whose bytes are not what its format demands."""
    return InvalidInputError(ErrorCode.INPUT_CORRUPT, f"{path} is damaged: {what}", path=str(path))
