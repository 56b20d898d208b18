"""Fashion-MNIST from a folder, pinned by digest, as a table that is released. Source: schemas/SPEC.md#crash-lab."""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, InvalidInputError

PIXELS = 784
_MAX_BYTES = 64 * 1024 * 1024
_IMAGES, _LABELS = 2051, 2049


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One file of the data set.

    Attributes:
        name: Of the compressed file, less its ``.gz``.
        digest: Of the bytes inside. Debian's package and the authors' download compress the same bytes under different
            headers, so the digest of the compressed file would tell the two apart for no reason.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The four files that a drill takes, and no others."""

    train_images: Resource
    train_labels: Resource
    test_images: Resource
    test_labels: Resource

    @property
    def resources(self) -> tuple[Resource, ...]:
        """All four."""
        return self.train_images, self.train_labels, self.test_images, self.test_labels


def _pinned(name: str, digits: str) -> Resource:
    return Resource(name=name, digest=f"sha256:{digits}")


FASHION_MNIST = Pins(
    train_images=_pinned("train-images-idx3-ubyte", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    train_labels=_pinned("train-labels-idx1-ubyte", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    test_images=_pinned("t10k-images-idx3-ubyte", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    test_labels=_pinned("t10k-labels-idx1-ubyte", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)


def read_table(folder: Path, pins: Pins) -> Any:
    """All samples, as they are released: ``id``, ``split``, ``number`` in its file, ``image``, ``label``.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.corrupt`` where a file is not the pinned one.
    """
    train = _split("train", _idx(folder, pins.train_images, _IMAGES), _idx(folder, pins.train_labels, _LABELS))
    test = _split("test", _idx(folder, pins.test_images, _IMAGES), _idx(folder, pins.test_labels, _LABELS))
    return pa.concat_tables([train, test])


def _split(name: str, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> Any:
    if len(images) != len(labels):
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "images and labels are not of one number", split=name)
    pixels = pa.py_buffer(np.ascontiguousarray(images))
    return pa.table(
        {
            "id": [f"{name}-{number:05d}" for number in range(len(labels))],
            "split": [name] * len(labels),
            "number": np.arange(len(labels), dtype=np.uint32),
            "image": pa.FixedSizeBinaryArray.from_buffers(pa.binary(PIXELS), len(labels), [None, pixels]),
            "label": labels,
        }
    )


def rebuilt(pins: Pins, train: tuple[Any, Any], test: tuple[Any, Any]) -> list[Resource]:
    """The resources again, of images and labels of both splits: what a release of them holds."""
    parts = zip(pins.resources, (*train, *test), strict=True)
    return [Resource(name=one.name, digest=digest_of(_as_idx(values))) for one, values in parts]


def _as_idx(values: npt.NDArray[Any]) -> bytes:
    if values.ndim == 1:
        return struct.pack(">II", _LABELS, len(values)) + values.astype(np.uint8).tobytes()
    return struct.pack(">IIII", _IMAGES, len(values), 28, 28) + values.tobytes()


def _idx(folder: Path, resource: Resource, magic: int) -> npt.NDArray[np.uint8]:
    data = _read(folder / f"{resource.name}.gz")
    if digest_of(data) != resource.digest:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "a file is not the pinned one", file=resource.name)
    kind, count = struct.unpack(">II", data[:8])
    values = np.frombuffer(data, np.uint8, offset=16 if kind == _IMAGES else 8)
    if kind != magic or len(values) != count * (PIXELS if kind == _IMAGES else 1):
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "a file is no IDX file of its kind", file=resource.name)
    return values.reshape(count, PIXELS) if kind == _IMAGES else values


def _read(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read(_MAX_BYTES)
    except FileNotFoundError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE,
            "no Fashion-MNIST here: install Debian's dataset-fashion-mnist, or name a folder of its four files with --data",
            file=path.name,
        ) from err
    except (OSError, EOFError, zlib.error) as err:
        raise InvalidInputError(ErrorCode.INPUT_CORRUPT, "a file cannot be decompressed", file=path.name) from err
