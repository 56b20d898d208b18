"""The complete test split, and the frozen probe, under a state. Source: schemas/SPEC.md#crash-lab."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from shardrel.canonical import json
from shardrel.data.shards import open_shard, select_fields, shard_descriptor
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError, InvalidInputError
from shardrel.lab.evidence import PROBE_SAMPLES, Checkpoint, Evaluation, Path
from shardrel.lab.fashion import PIXELS
from shardrel.lab.model import Classifier
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get, get_by_digest, get_record
from shardrel.store.port import Store

_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Images and labels of a split, in the order of their files."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


def read_split(store: Store, root: str, name: str) -> Split:
    """A split of a release, all of it.

    Raises:
        InvalidInputError: ``input.corrupt`` where a sample is absent.
        IntegrityError: Where a shard is not what the root says.
    """
    release = json.decode(get_by_digest(store, root), Release)
    fields = select_fields(get_record(store, release.objects.record_schema, RecordSchema), ("number", "image", "label"))
    tables = []
    for shard in release.shards:
        opened = open_shard(get(store, shard_descriptor(shard)), shard, fields, name)
        tables.append(opened.table if opened.rows is None else opened.table.take(opened.rows))
    columns = {
        name: [value for table in tables for value in table.column(name).to_pylist()] for name in ("number", "label")
    }
    images = b"".join(image for table in tables for image in table.column("image").to_pylist())
    order = np.argsort(columns["number"])
    if np.array(columns["number"])[order].tolist() != list(range(len(order))):
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "a split of the release is not whole", split=name)
    return Split(
        images=np.frombuffer(images, np.uint8).reshape(-1, PIXELS)[order],
        labels=np.array(columns["label"], np.int64)[order],
    )


def evaluate(split: Split, path: Path, checkpoint: Checkpoint, state: Mapping[str, Any]) -> Evaluation:
    """Every sample of the split, in pieces of a fixed size, on one thread.

    Raises:
        FormatError: ``checkpoint.unsupported-schema`` where the state is another model's.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _evaluate(split, path, checkpoint, state)
    finally:
        torch.set_num_threads(threads)


def _evaluate(split: Split, path: Path, checkpoint: Checkpoint, state: Mapping[str, Any]) -> Evaluation:
    model = Classifier()
    try:
        model.load_state_dict(state["model"])
    except (RuntimeError, TypeError) as err:
        raise FormatError(ErrorCode.CHECKPOINT_SCHEMA, "a state is not one of this model") from err
    correct, loss = 0, 0.0
    with torch.no_grad():
        for start in range(0, len(split.labels), _CHUNK):
            labels = torch.from_numpy(split.labels[start : start + _CHUNK].copy())
            logits = _logits(model, split, start, start + _CHUNK)
            correct += int((logits.argmax(1) == labels).sum())
            loss += float(torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum"))
        probe = _logits(model, split, 0, PROBE_SAMPLES).numpy().astype("<f4").tobytes()
    return Evaluation(
        path=path,
        checkpoint=checkpoint,
        samples=len(split.labels),
        correct=correct,
        loss=struct.pack(">d", loss).hex(),
        logits=probe.hex(),
        logits_digest=digest_of(probe),
    )


def _logits(model: Classifier, split: Split, start: int, end: int) -> torch.Tensor:
    logits: torch.Tensor = model(torch.from_numpy(split.images[start:end].copy()))
    return logits
