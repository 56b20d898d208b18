"""A file's suffix decides its format."""

from pathlib import Path

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.sources.files import SUFFIXES, suffix_of
from shardrel.sources.ipc import open_ipc
from shardrel.sources.jsonl import open_jsonl
from shardrel.sources.parquet import open_parquet
from shardrel.sources.source import Fingerprint, SourceFile, empty_file


def open_source(path: Path | str) -> SourceFile:
    """Open a file of records and check its structure, without decoding it.

    JSON Lines are the exception: they are read once to infer their types.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.unknown-format``, ``input.empty-file``,
            ``input.truncated``, ``input.corrupt``, ``input.json-line``, ``input.invalid-utf8``, ``schema.int96``,
            ``schema.duplicate-field``, ``schema.conflict``; each names the file.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix is None:
        raise InvalidInputError(
            ErrorCode.INPUT_UNKNOWN_FORMAT, f"{path} has none of the suffixes {', '.join(SUFFIXES)}", path=str(path)
        )
    if Fingerprint.of(path).size == 0:
        raise empty_file(path)
    if suffix == ".parquet":
        return open_parquet(path)
    if suffix in (".arrow", ".feather", ".ipc", ".arrows"):
        return open_ipc(path)
    return open_jsonl(path, compression={".zst": "zstd", ".gz": "gzip"}.get(Path(suffix).suffix))
