"""Every flipped bit of a real shard's footer, with nothing further out that could catch it.

In a process of its own: some footers made pyarrow end the process that asked for a column chunk.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from shardrel.errors import ErrorCode

_ROOT = Path(__file__).parents[2]
PROGRAM = """
import collections, json
import pyarrow as pa
from tests.support.release_builder import a_release
from verifier.decode import batches
from verifier.parameters import departures
from verifier.physical import shard_schema
from verifier.structure import FlawError, limits, open_file

built = a_release()
entry, expected, data = built.release.shards[0], shard_schema(built.schema), built.shard_bytes(0)
bounds = limits(entry.records, entry.logical_bytes, 2048 * entry.records, len(expected))


def read(data):
    file = open_file(data, bounds, expected, checksums=True)
    list(departures(file, built.release.serializer, built.release.compression, (), "shard"))
    found = pa.Table.from_batches(list(batches(data, file, unfolded_bytes=2048 * entry.records)))
    return found.cast(expected)


sound, seen = read(data), collections.Counter()
start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
for bit in range(8 * start, 8 * (len(data) - 8)):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    try:
        seen["same records" if read(bytes(damaged)).equals(sound) else "other records"] += 1
    except FlawError as flaw:
        seen[flaw.code] += 1
print(json.dumps(seen))
"""


def test_no_flipped_bit_of_a_footer_ends_the_process_or_gives_other_records() -> None:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment, cwd=_ROOT
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "other records" not in seen
    assert seen[ErrorCode.PARQUET_FOOTER] > 1000
    assert sum(seen.values()) > 5000
