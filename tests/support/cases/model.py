"""What a case says about its files."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.errors import ErrorCode


@dataclass(kw_only=True)
class FileCase:
    """Files by name, and what a digest of them has to tell.

    Attributes:
        files: Name to bytes.
        same: Groups of files with one logical digest.
        differ: Groups of files whose logical digests all differ.
        one_schema: Groups of files with one schema digest.
        other_schema: Groups of files whose schema digests all differ.
        refused: File to the code of its refusal.
        records: File to its number of records.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    same: list[list[str]] = field(default_factory=list)
    differ: list[list[str]] = field(default_factory=list)
    one_schema: list[list[str]] = field(default_factory=list)
    other_schema: list[list[str]] = field(default_factory=list)
    refused: dict[str, ErrorCode] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, data: bytes) -> str:
        """One more file."""
        self.files[name] = data
        return name

    def column(self, name: str, values: Any, **options: Any) -> str:
        """One more Parquet file with row numbers beside one column."""
        numbers = pa.array(range(len(values)), pa.int64())
        return self.add(name + ".parquet", parquet(pa.table({"id": numbers, "v": values}), **options))

    def write(self, folder: Path) -> None:
        """All files into a folder."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


def parquet(table: Any, **options: Any) -> bytes:
    """Parquet bytes of a table."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()
