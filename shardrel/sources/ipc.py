"""Arrow IPC sources, file and stream format, memory mapped. Source: schemas/SPEC.md#sources.

A stream without its end mark is a stream that somebody cut. Bytes that belong to no message are
refused: two files glued together open as one otherwise.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardrel.canonical.validity import validate
from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.names import check_names
from shardrel.sources.slicing import split_batch
from shardrel.sources.source import BATCH_BYTES, Fingerprint, corrupt, truncated

_MAGIC = b"ARROW1"
_HEAD = 8
_TAIL = 10
# Hashed at a time: other threads and signals have their turn in between.
_PIECE = 16 * 1024 * 1024


def open_ipc(path: Path) -> "IpcSource":
    """Open an Arrow IPC file or stream whose messages are all there.

    Raises:
        InvalidInputError: ``input.truncated``, ``input.corrupt``, ``input.unknown-format`` (Feather version 1),
            ``schema.duplicate-field``.
    """
    fingerprint = Fingerprint.of(path)
    data = _map(path)
    head = bytes(data[: len(_MAGIC)])
    if head.startswith(b"FEA1"):
        raise InvalidInputError(
            ErrorCode.INPUT_UNKNOWN_FORMAT, f"{path} is a Feather file of version 1; write it as Arrow IPC",
            path=str(path),
        )  # fmt: skip
    is_file = head == _MAGIC
    if is_file:
        _check_file(path, data)
    else:
        _check_stream(path, data)
    with _reader(path, data, is_file) as reader:
        schema = reader.schema
        check_names(path, schema)
    return IpcSource(path=path, schema=schema, fingerprint=fingerprint, is_file=is_file)


@dataclass(frozen=True, kw_only=True)
class IpcSource:
    """An Arrow IPC file or stream; see ``SourceFile``."""

    path: Path
    schema: Any
    fingerprint: Fingerprint
    is_file: bool
    _place: list[tuple[int, int]] = field(default_factory=list, repr=False, compare=False)

    @property
    def num_rows(self) -> int | None:
        return None

    @cached_property
    def digest(self) -> Digest:
        data, state = memoryview(_map(self.path)), hashlib.sha256()
        for start in range(0, len(data), _PIECE):
            state.update(data[start : start + _PIECE])
        self.fingerprint.check(self.path)
        return Digest("sha256:" + state.hexdigest())

    def batches(self, target: Any = None, batch_bytes: int = BATCH_BYTES) -> Iterator[Any]:
        self.fingerprint.check(self.path)
        rows = 0
        for batch in self._read():
            yield from split_batch(self._checked(batch, rows), batch_bytes)
            rows += batch.num_rows
        self.fingerprint.check(self.path)

    def is_mapped(self, values: Any) -> bool:
        """Whether an array of the batch that was read last lies in the file, and takes no memory of its own."""
        first, last = self._place[-1] if self._place else (0, 0)
        return all(first <= one.address and one.address + one.size <= last for one in values.buffers() if one)

    def _read(self) -> Iterator[Any]:
        data = _map(self.path)
        # No more than where it is: the mapping ends with the batches that lie in it.
        self._place[:] = [(data.address, data.address + data.size)]
        with _reader(self.path, data, self.is_file) as reader:
            try:
                if self.is_file:
                    for index in range(reader.num_record_batches):
                        yield reader.get_batch(index)
                else:
                    yield from reader
            except (pa.ArrowException, OSError, MemoryError) as err:
                raise corrupt(self.path, "a record batch can't be read") from err

    def _checked(self, batch: Any, first_row: int) -> Any:
        """Refuse offsets and indices that point outside their buffers, and text that is not UTF-8."""
        try:
            batch.validate()
            for column in batch.columns:
                validate(column)
        except pa.ArrowException as err:
            row = first_row + _first_bad_row(batch)
            code = ErrorCode.INPUT_UTF8 if "UTF8" in str(err) else ErrorCode.INPUT_CORRUPT
            raise InvalidInputError(
                code, f"{self.path}, row {row}: its value is not valid", path=str(self.path), row=row
            ) from err
        return batch


def _first_bad_row(batch: Any) -> int:
    low, high = 0, batch.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            batch.slice(low, middle - low).validate(full=True)
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _map(path: Path) -> Any:
    try:
        with pa.memory_map(str(path), "r") as file:
            return file.read_buffer()
    except (pa.ArrowException, OSError) as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path)) from err


def _reader(path: Path, data: Any, is_file: bool) -> Any:
    try:
        return pa.ipc.open_file(data) if is_file else pa.ipc.open_stream(data)
    except (pa.ArrowException, OSError, MemoryError) as err:
        raise corrupt(path, "its schema can't be read") from err


def _check_file(path: Path, data: Any) -> None:
    if data.size < _HEAD + _TAIL or bytes(data[-len(_MAGIC) :]) != _MAGIC:
        raise truncated(path, "the footer is not at its end")
    length = int.from_bytes(bytes(data[-_TAIL : -len(_MAGIC)]), "little")
    footer = data.size - _TAIL - length
    if not _HEAD <= footer < data.size - _TAIL:
        raise corrupt(path, f"its footer claims {length} bytes")
    batches, end, _ = _scan(path, data[_HEAD:footer])
    if bytes(data[_HEAD + end : footer]).strip(b"\0"):
        raise corrupt(path, f"no message covers the bytes from {_HEAD + end} on; are these two files?")
    with _reader(path, data, True) as reader:
        if reader.num_record_batches != batches:
            raise corrupt(path, "its footer names other record batches than it holds")


def _check_stream(path: Path, data: Any) -> None:
    _, end, marked = _scan(path, data)
    if end != data.size:
        raise corrupt(path, f"bytes follow the end of the stream at {end}; are these two files?")
    if not marked:
        raise truncated(path, "the stream has no end mark")


def _scan(path: Path, data: Any) -> tuple[int, int, bool]:
    """Walk over the messages without decoding them.

    Returns:
        Record batches, offset behind the last message or end mark, whether there was an end mark.
    """
    source = pa.BufferReader(data)
    messages = pa.ipc.MessageReader.open_stream(source)
    batches = 0
    while True:
        before = source.tell()
        try:
            batches += messages.read_next_message().type == "record batch"
        except StopIteration:
            return batches, source.tell(), source.tell() > before
        except (pa.ArrowException, OSError, MemoryError) as err:
            if before == 0:
                raise corrupt(path, "it does not begin like Arrow IPC") from err
            raise truncated(path, "a message is not whole") from err
