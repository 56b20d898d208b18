"""What a careful team does without the product: read or write the files and hash them.

Every worker thread handles whole files, so that both sides use the same number of threads.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def read_and_hash(paths: list[Path], threads: int) -> int:
    """SHA-256 of each file and ``pyarrow.parquet.read_table`` of it; returns the rows."""

    def one(path: Path) -> int:
        with open(path, "rb") as file:
            hashlib.file_digest(file, "sha256")
        return int(pq.read_table(path, use_threads=False).num_rows)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, paths))


def write_and_hash(source: Path, out: Path, shards: int, threads: int) -> int:
    """``write_table`` with default options and the same codec, a file a shard, and SHA-256 of each."""
    with pa.memory_map(str(source)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
        rows = table.num_rows // shards

        def one(index: int) -> int:
            path = out / f"{index}.parquet"
            pq.write_table(table.slice(index * rows, rows), path, compression="zstd", compression_level=3)
            with open(path, "rb") as file:
                hashlib.file_digest(file, "sha256")
            return path.stat().st_size

        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(one, range(shards)))
