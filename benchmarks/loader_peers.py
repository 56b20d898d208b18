"""Other loaders on the same data, each in its own format; runs in an environment of its own, without shardrel.

    python -m benchmarks.loader_peers make FOLDER KIND
    python -m benchmarks.loader_peers read FOLDER KIND SETTING SECONDS warm|cold|s3

``make`` writes ``FOLDER/<peer>`` from ``FOLDER/source.arrow``; ``read`` prints one JSON object. Every setting shuffles and
ends in a torch tensor a row, or a batch of them. Cold is one epoch into an empty cache, from the folder or from the
bucket that the environment names (``SHARDREL_BENCH_BUCKET``, with what boto3 reads).
"""

import importlib.machinery
import itertools
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

COLUMN = {"tokens": "tokens", "images": "image"}
SHAPE = {"tokens": None, "images": (3, 64, 64)}
DTYPE = {"tokens": np.uint16, "images": np.uint8}
BATCH = 32
FILE_ROWS = 5000

Rows = Iterator[int]  # how many rows became tensors, at a time


def rows_of(folder: Path, kind: str) -> Iterator[np.ndarray[Any, Any]]:
    """The rows of the source as arrays."""
    with pa.memory_map(str(folder / "source.arrow")) as file:
        for batch in map(pa.ipc.open_file(file).get_batch, range(pa.ipc.open_file(file).num_record_batches)):
            column = batch.column(COLUMN[kind])
            values = column.values.to_numpy()
            if kind == "images":
                yield from values[: len(column) * 12288].reshape(-1, *(3, 64, 64))
                continue
            ends = column.offsets.to_numpy()
            yield from (values[low:high] for low, high in itertools.pairwise(ends))


def make_mosaic(folder: Path, kind: str) -> None:
    writer = _streaming().MDSWriter
    encoding = "ndarray:uint16" if kind == "tokens" else "ndarray:uint8:3,64,64"
    with writer(out=str(folder / "mosaic"), columns={"x": encoding}, compression=None, hashes=["sha256"]) as out:
        for row in rows_of(folder, kind):
            out.write({"x": row})


def make_webdataset(folder: Path, kind: str) -> None:
    import webdataset

    (folder / "webdataset").mkdir()
    with webdataset.ShardWriter(str(folder / "webdataset/%05d.tar"), maxcount=FILE_ROWS, verbose=0) as out:
        for at, row in enumerate(rows_of(folder, kind)):
            out.write({"__key__": f"{at:08d}", "bin": row.tobytes()})


def make_litdata(folder: Path, kind: str) -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(folder / "litdata"), chunk_bytes="64MB")
    for at, row in enumerate(rows_of(folder, kind)):
        writer[at] = {"x": torch.from_numpy(np.array(row))}
    writer.done()
    writer.merge()


def make_huggingface(folder: Path, kind: str) -> None:
    import pyarrow.parquet as pq
    from datasets import Dataset

    with pa.memory_map(str(folder / "source.arrow")) as file:
        table = pa.ipc.open_file(file).read_all().select([COLUMN[kind]])
        (folder / "parquet").mkdir()
        pq.write_table(table, folder / "parquet/data.parquet", compression="zstd")
        Dataset(table).save_to_disk(str(folder / "huggingface"))


def remote(folder: Path, peer: str, state: str) -> str:
    """Where a peer's data is."""
    return f"s3://{bucket()}/{peer}" if state == "s3" else str(folder / peer)


def bucket() -> str:
    """Bucket and prefix of everybody's data."""
    return os.environ["SHARDREL_BENCH_BUCKET"]


def signed(peer: str, names: list[str]) -> list[str]:
    """Addresses of objects for plain HTTP."""
    import boto3

    name, _, prefix = bucket().partition("/")
    client = boto3.client("s3")
    return [
        client.generate_presigned_url("get_object", Params={"Bucket": name, "Key": f"{prefix}/{peer}/{one}"})
        for one in names
    ]


def mosaic(folder: Path, kind: str, state: str, check: str | None, workers: int) -> Rows:
    with tempfile.TemporaryDirectory() as fresh:
        places = {"local": str(folder / "mosaic")}
        if state != "warm":
            places = {"remote": remote(folder, "mosaic", state), "local": fresh}
        data = _streaming().StreamingDataset(
            **places, shuffle=True, shuffle_algo="py1e", batch_size=BATCH, validate_hash=check
        )
        yield from _loaded(data, workers, lambda row: torch.from_numpy(row["x"]))


def webdataset(folder: Path, kind: str, state: str, workers: int) -> Rows:
    import webdataset as wds

    paths = sorted((folder / "webdataset").iterdir())
    files = [str(path) for path in paths]
    if state == "s3":
        files = [f"pipe:curl -s -f '{url}'" for url in signed("webdataset", [path.name for path in paths])]
    with tempfile.TemporaryDirectory() as fresh:
        cache = fresh if state == "cold" else None  # from S3 it is faster without one
        data = wds.WebDataset(files, shardshuffle=len(files), cache_dir=cache, empty_check=False)
        data = data.shuffle(1000).to_tuple("bin")

        def tensor(row: tuple[bytes]) -> torch.Tensor:
            made = torch.frombuffer(bytearray(row[0]), dtype=torch.uint16 if kind == "tokens" else torch.uint8)
            shape = SHAPE[kind]
            return made if shape is None else made.reshape(shape)

        yield from _loaded(data, workers, tensor)


def litdata(folder: Path, kind: str, state: str, workers: int) -> Rows:
    from litdata import StreamingDataset
    from litdata.streaming.resolver import Dir

    with tempfile.TemporaryDirectory() as fresh:
        place: Any = str(folder / "litdata")
        if state == "cold":  # it has no remote that is a folder
            shutil.copytree(folder / "litdata", Path(fresh) / "remote")
            place = str(Path(fresh) / "remote")
        elif state == "s3":
            _litdata_without_tls()
            place = Dir(path=fresh, url=remote(folder, "litdata", state))
        data = StreamingDataset(place, shuffle=True)
        yield from _loaded(data, workers, lambda row: row["x"])


def _litdata_without_tls() -> None:
    """Its client in Rust refuses plain HTTP, and has no setting for a server on this machine."""
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS = {**downloader._OBSTORE_CLIENT_OPTIONS, "allow_http": True}


def huggingface(folder: Path, kind: str, state: str, form: str) -> Rows:
    from datasets import Dataset

    with tempfile.TemporaryDirectory() as fresh:
        if state == "s3":
            (url,) = signed("parquet", ["data.parquet"])
            data = Dataset.from_parquet(url, cache_dir=fresh)
        elif state == "cold":
            data = Dataset.from_parquet(str(folder / "parquet/data.parquet"), cache_dir=fresh)
        else:
            data = Dataset.load_from_disk(str(folder / "huggingface"))
        data = data.shuffle(seed=1)
        column = COLUMN[kind]
        if form == "rows":
            for row in data.with_format("torch"):
                assert isinstance(row[column], torch.Tensor)
                yield 1
            return
        for batch in data.with_format("arrow" if form == "by_hand" else form).iter(256 if form == "by_hand" else BATCH):
            yield _by_hand(batch[column], kind) if form == "by_hand" else _as_tensors(batch[column])


def _as_tensors(batch: Any) -> int:
    made = batch if isinstance(batch, torch.Tensor) else [torch.as_tensor(row) for row in batch]
    return len(made)


def _by_hand(column: Any, kind: str) -> int:
    """What a user can write around Hugging Face datasets that hand out Arrow."""
    array = column.combine_chunks()
    values = torch.from_numpy(np.array(array.flatten()))
    if kind == "tokens":
        torch.split(values, np.diff(array.offsets.to_numpy()).tolist())
    return len(array)


def _loaded(data: Any, workers: int, tensor: Callable[[Any], torch.Tensor]) -> Rows:
    if workers == 0:
        for row in data:
            tensor(row)
            yield 1
        return
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=list)
    for batch in loader:
        for row in batch:
            tensor(row)
        yield len(batch)


def _streaming() -> Any:
    """MosaicML Streaming; it imports torchvision, which tokens don't need and not every torch has a wheel for."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        parts: dict[str, dict[str, object]] = {
            "torchvision": {},
            "torchvision.transforms": {},
            "torchvision.transforms.functional": {"to_tensor": None},
            "torchvision.datasets": {"VisionDataset": object},
        }
        for name, content in parts.items():
            module = types.ModuleType(name)
            module.__dict__.update(content)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            sys.modules[name] = module
    import streaming

    return streaming


MAKERS = {
    "mosaic": make_mosaic,
    "webdataset": make_webdataset,
    "litdata": make_litdata,
    "huggingface": make_huggingface,
}

SETTINGS: dict[str, Callable[[Path, str, str], Rows]] = {
    "mosaic": lambda f, k, c: mosaic(f, k, c, None, 0),
    "mosaic.sha256": lambda f, k, c: mosaic(f, k, c, "sha256", 0),
    "mosaic.2workers": lambda f, k, c: mosaic(f, k, c, None, 2),
    "webdataset": lambda f, k, c: webdataset(f, k, c, 0),
    "webdataset.2workers": lambda f, k, c: webdataset(f, k, c, 2),
    "litdata": lambda f, k, c: litdata(f, k, c, 0),
    "litdata.2workers": lambda f, k, c: litdata(f, k, c, 2),
    "huggingface.rows": lambda f, k, c: huggingface(f, k, c, "rows"),
    "huggingface.torch": lambda f, k, c: huggingface(f, k, c, "torch"),
    "huggingface.numpy": lambda f, k, c: huggingface(f, k, c, "numpy"),
    "huggingface.arrow_by_hand": lambda f, k, c: huggingface(f, k, c, "by_hand"),
}


def measured(rows: Rows, seconds: float, *, from_first: bool) -> dict[str, float]:
    """Rows, wall seconds and processor seconds, for at most about ``seconds``.

    Args:
        rows: How many at a time.
        seconds: When to stop.
        from_first: Begin to count behind the first of them, when processes are there and files are open.
    """
    if from_first:
        next(rows)
    start, cpu, count = time.perf_counter(), _cpu(), 0
    for more in rows:
        count += more
        if time.perf_counter() - start > seconds:
            break
    wall = time.perf_counter() - start
    rows.close()  # type: ignore[attr-defined]  # workers that have ended are counted
    return {"rows": count, "wall_s": wall, "cpu_s": _cpu() - cpu}


def _cpu() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    torch.set_num_threads(1)
    verb, where, what = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if verb == "make":
        for maker in MAKERS.values():
            maker(where, what)
    else:
        setting, limit, state = sys.argv[4:7]
        print(json.dumps(measured(SETTINGS[setting](where, what, state), float(limit), from_first=state == "warm")))
