"""Our loader and bare memory-mapped Arrow, in the same permuted order and output shape; a process a measurement.

python -m benchmarks.loader_own FOLDER KIND ours|bare rows|batch BATCH SECONDS [warm|cold|s3]
"""

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from benchmarks.loader_peers import COLUMN, SHAPE, measured
from shardrel.canonical.json import decode
from shardrel.data import ledger
from shardrel.data.batches import Seat, batches
from shardrel.data.cache import ShardCache
from shardrel.data.decoded import DecodedCache, ShardEntry
from shardrel.data.mix import open_shards
from shardrel.data.order import BatchSpan, SampleOrder, samples_of
from shardrel.data.reader import ShardReader
from shardrel.data.shards import open_shard, select_fields, shard_descriptor
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.local import LocalStore
from shardrel.store.objects import get, get_by_digest, get_record
from shardrel.store.open import open_store
from shardrel.store.port import Store

SEED = 1
BLOCK_SHARDS = 8


class Published:
    """A release in a store below a folder, or in a bucket."""

    def __init__(self, folder: Path, kind: str, *, s3: bool = False) -> None:
        self.folder = folder
        self.column = COLUMN[kind]
        self.shape = SHAPE[kind]
        self.root = (folder / ("root-s3" if s3 else "root")).read_text()
        self.store: Store = open_store((folder / "url-s3").read_text()) if s3 else LocalStore(folder / "store")
        self.decoded = DecodedCache(ShardCache(folder / "cache", self.store))
        self.release = decode(get_by_digest(self.store, self.root), Release)
        self.schema = get_record(self.store, self.release.objects.record_schema, RecordSchema)
        sizes = tuple(shard.records for shard in self.release.shards)
        self.order = SampleOrder(sizes=sizes, seed=SEED, block_shards=BLOCK_SHARDS)

    def fields(self) -> Any:
        """Of the one column that is read."""
        return select_fields(self.schema, (self.column,))

    def write_bare(self) -> None:
        """Every shard's column as an uncompressed Arrow file, for the bare side."""
        (self.folder / "bare").mkdir()
        for number, shard in enumerate(self.release.shards):
            table = open_shard(get(self.store, shard_descriptor(shard)), shard, self.fields(), None).table
            with pa.ipc.new_file(str(self.folder / f"bare/{number}.arrow"), table.schema) as out:
                out.write_table(table.combine_chunks())


def ours(data: Published, shape: str, batch: int, cold: bool) -> Iterator[int]:
    """Rows of one epoch through the loader, with every check that it does."""
    with tempfile.TemporaryDirectory() if cold else contextlib.nullcontext("") as fresh:
        cache = DecodedCache(ShardCache(Path(fresh), data.store)) if cold else data.decoded
        entries = [ShardEntry(shard=shard, schema=data.schema) for shard in data.release.shards]
        reader = ShardReader(cache, entries, data.fields(), None, keep=open_shards(data.order))
        steps = batches(
            reader, data.order, ledger.genesis(data.root), global_batch=batch,
            seat=Seat(rank=0, world_size=1),
        )  # fmt: skip
        for step in steps:
            if step.before.epoch:
                break
            if shape == "rows":
                rows = step.views(data.column)  # on the mapped files, as the bare side has them
                assert len(rows) == step.count
            elif data.shape is None:
                step.ragged(data.column)
            else:
                step.tensor(data.column)
            yield step.count
        reader.close()


def bare(data: Published, shape: str, batch: int) -> Iterator[int]:
    """The same rows in the same order from mapped Arrow files: no order to compute, no check, no ledger."""
    shards = [_mapped(data.folder / f"bare/{number}.arrow", data.shape) for number in range(len(data.release.shards))]
    order = np.concatenate(list(_whole_order(data.order)))
    for start in range(0, len(order), batch):
        picked = order[start : start + batch].tolist()
        if data.shape is None:
            views = [
                values[ends[row] : ends[row + 1]] for values, ends, row in ((*shards[s], row) for s, row in picked)
            ]
        else:
            views = [shards[number][0][row] for number, row in picked]
        if shape == "rows":
            rows = [torch.from_numpy(view) for view in views]
            assert len(rows) == len(picked)
        elif data.shape is None:
            torch.from_numpy(np.concatenate(views))
            torch.from_numpy(np.cumsum([0, *map(len, views)]))
        else:
            torch.from_numpy(np.stack(views))
        yield len(picked)


def endless(epoch: Callable[[], Iterator[int]]) -> Iterator[int]:
    """One epoch after the other."""
    while True:
        yield from epoch()


def _whole_order(order: SampleOrder) -> Iterator[Any]:
    for start in range(0, order.epoch_samples, 1 << 16):
        count = min(1 << 16, order.epoch_samples - start)
        yield samples_of(order, BatchSpan(epoch=0, start=start, count=count))


def _mapped(path: Path, shape: tuple[int, ...] | None) -> tuple[Any, Any]:
    column = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0)
    values = column.values.to_numpy()
    if shape is not None:
        return values.reshape(-1, *shape), None
    return values, column.offsets.to_numpy().tolist()


if __name__ == "__main__":
    import warnings

    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    torch.set_num_threads(1)
    folder, kind, side, shape = Path(sys.argv[1]), *sys.argv[2:5]
    size, seconds, state = int(sys.argv[5]), float(sys.argv[6]), (*sys.argv[7:], "warm")[0]
    data = Published(folder, kind, s3=state == "s3")

    def epoch() -> Iterator[int]:
        return ours(data, shape, size, state != "warm") if side == "ours" else bare(data, shape, size)

    if state != "warm":
        print(json.dumps(measured(epoch(), seconds, from_first=False)))
    else:
        # One epoch to warm up, in which the process checks every shard; then epochs that open every shard anew.
        sum(epoch())
        print(json.dumps(measured(endless(epoch), seconds, from_first=True)))
