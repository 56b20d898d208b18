"""The two inputs: token sequences and small records, as local Arrow IPC files made from one seed."""

from pathlib import Path

import numpy as np
import pyarrow as pa

WORDS = 4096


def tokens_table(first: int, records: int, rng: np.random.Generator) -> pa.Table:
    """Records with an id and a list<uint16> of about 820 tokens, frequencies like those of text."""
    lengths = rng.integers(620, 1021, records)
    offsets = np.zeros(records + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    # Zipf-like ranks by inverting a log-uniform distribution: small ids are frequent.
    ranks = np.exp(rng.random(int(offsets[-1])) * np.log(50_000)).astype(np.uint16)
    values = pa.ListArray.from_arrays(pa.array(offsets), pa.array(ranks))
    return pa.table({"id": _ids(first, records), "tokens": values})


def small_table(first: int, records: int, rng: np.random.Generator) -> pa.Table:
    """Records of about 150 bytes: three strings and four numbers."""
    vocabulary = np.array([_word(rng) for _ in range(WORDS)])
    picks = np.exp(rng.random((records, 12)) * np.log(WORDS)).astype(np.int64) - 1
    text = pa.array([" ".join(row) for row in vocabulary[picks]])
    return pa.table(
        {
            "id": _ids(first, records),
            "text": text,
            "url": pa.array([f"example/{a:x}/{b:x}" for a, b in rng.integers(0, 1 << 32, (records, 2))]),
            "language": pa.array(np.array(["en", "de", "fr", "es", "ja"])[rng.integers(0, 5, records)]),
            "score": rng.random(records),
            "length": rng.integers(0, 100_000, records),
            "time": pa.array(rng.integers(1_500_000_000_000, 1_700_000_000_000, records), pa.timestamp("ms", "UTC")),
            "votes": pa.array(rng.integers(0, 50, records), pa.int32()),
        }
    )


def write_ipc(path: Path, kind: str, shards: int, records_per_shard: int, seed: int = 7) -> int:
    """Write ``shards`` × ``records_per_shard`` records to one IPC file; returns its bytes."""
    rng = np.random.default_rng(seed)
    make = tokens_table if kind == "tokens" else small_table
    step = min(records_per_shard, 50_000)
    total = shards * records_per_shard
    writer = None
    for first in range(0, total, step):
        table = make(first, min(step, total - first), rng)
        if writer is None:
            writer = pa.ipc.new_file(str(path), table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return path.stat().st_size


def _ids(first: int, records: int) -> pa.Array:
    return pa.array([f"sample-{first + i:010d}" for i in range(records)])


def _word(rng: np.random.Generator) -> str:
    return "".join(chr(97 + c) for c in rng.integers(0, 26, int(rng.integers(2, 10))))


def write_images(path: Path, rows: int) -> None:
    """An Arrow IPC file of so many pictures of 12,288 bytes."""
    rng = np.random.default_rng(7)
    writer = None
    for first in range(0, rows, 2000):
        count = min(2000, rows - first)
        # Smooth gradients with noise: compresses about as little as photographs.
        pixels = (rng.integers(0, 200, (count, 1)) + rng.integers(0, 56, (count, 12288))).astype(np.uint8)
        column = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), 12288)
        table = pa.table({"id": [f"sample-{at:010d}" for at in range(first, first + count)], "image": column})
        writer = writer or pa.ipc.new_file(str(path), table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
