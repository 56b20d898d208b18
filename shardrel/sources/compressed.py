"""Whole sequences of zstd frames or gzip members as one stream of bytes, in bounded memory.

Several frames, empty and skippable ones are one stream. A cut frame, and anything that is no frame,
is an error, also behind the last one. Source: RFC 8878 section 3, RFC 1952 section 2.2
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.source import corrupt, truncated

CHUNK_BYTES = 1 << 20


def read_chunks(path: Path, compression: str | None) -> Iterator[bytes]:
    """The decompressed bytes of a file, ``CHUNK_BYTES`` or fewer at a time.

    Args:
        path: The file.
        compression: ``zstd``, ``gzip`` or None.

    Raises:
        InvalidInputError: ``input.truncated``, ``input.corrupt``, ``input.no-such-file``.
    """
    try:
        with pa.input_stream(str(path), compression=compression, buffer_size=0) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
    except (pa.ArrowException, OSError) as err:
        raise _translated(path, compression, err) from err


def _translated(path: Path, compression: str | None, err: Any) -> InvalidInputError:
    if compression is None or isinstance(err, FileNotFoundError | PermissionError):
        return InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path))
    if "runcated" in str(err):
        return truncated(path, f"its last {compression} frame does not end")
    return corrupt(path, f"it is not a whole sequence of {compression} frames")
