"""Logical digest of a file as it is, without snapshot or store. Source: schemas/SPEC.md#shard-stream."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from publisher.located import at_row, in_file
from shardrel.canonical.rows import RowEncoder
from shardrel.canonical.schema import record_schema, schema_digest
from shardrel.digest import Digest, Domain, to_digest, u64
from shardrel.errors import InvalidInputError
from shardrel.sources import open_source


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """What two files have in common when they hold equal records in equal order.

    Attributes:
        path: The file.
        records: How many there are.
        schema_digest: Of its record schema: names, types and labels.
        logical_digest: Of its records.
    """

    path: Path
    records: int
    schema_digest: Digest
    logical_digest: Digest


def digest_file(path: Path | str) -> FileDigest:
    """Digest a file's records over all of its columns; peak memory does not depend on its size.

    32 bytes a record are held, as the number of records comes before their digests in the stream.

    Raises:
        InvalidInputError: Whatever ``open_source``, ``SourceFile.batches`` and ``RowEncoder`` raise, with the file.
    """
    path = Path(path)
    source = open_source(path)
    try:
        schema = record_schema(source.schema)
        encoder = RowEncoder(schema)
    except InvalidInputError as err:
        raise in_file(err, path) from err
    digests, records = bytearray(), 0
    for batch in source.batches():
        try:
            digests += encoder.content_digests(batch).digests.tobytes()
        except InvalidInputError as err:
            raise at_row(err, path, records) from err
        records += batch.num_rows
    stream = hashlib.sha256(Domain.STREAM.value + encoder.content_type + u64(records))
    stream.update(digests)
    return FileDigest(
        path=path, records=records, schema_digest=schema_digest(schema), logical_digest=to_digest(stream.digest())
    )
