"""Logical digest of a file as it is, by the verifier's own encoder. Source: schemas/SPEC.md#shard-stream"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from shardrel.digest import Digest, Domain, to_digest, u64
from shardrel.errors import InvalidInputError
from shardrel.sources import open_source
from verifier.rows import content_digests
from verifier.schema import content_type, record_schema, schema_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """What a file holds: records, the digest of their schema and that of their ordered stream."""

    path: Path
    records: int
    schema_digest: Digest
    logical_digest: Digest


def digest_file(path: Path | str) -> FileDigest:
    """Digest the records of a file over all of its columns, in memory bounded by 32 bytes a record.

    Raises:
        InvalidInputError: ``input.…`` and ``schema.…``, naming the file and, where known, the row.
    """
    path = Path(path)
    source = open_source(path)
    digests, records = bytearray(), 0
    try:
        schema = record_schema(source.schema)
        for batch in source.batches():
            digests += content_digests(schema, batch).digests.tobytes()
            records += batch.num_rows
    except InvalidInputError as err:
        raise _named(err, path, records) from err
    stream = hashlib.sha256(Domain.STREAM.value + content_type(schema) + u64(records))
    stream.update(digests)
    return FileDigest(
        path=path, records=records, schema_digest=schema_digest(schema), logical_digest=to_digest(stream.digest())
    )


def _named(err: InvalidInputError, path: Path, before: int) -> InvalidInputError:
    """The same error with the file's name, and the row counted from the file's first record."""
    if "path" in err.context:
        return err
    context = dict(err.context)
    if isinstance(row := context.get("row"), int):
        context["row"] = before + row
    return InvalidInputError(err.code, f"{path}: {err.message}", path=str(path), **context)
