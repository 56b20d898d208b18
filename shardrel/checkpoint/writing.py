"""Regions of tensors become objects: cut, packed, hashed and stored by a few threads.

Source: schemas/SPEC.md#checkpoints
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import xxhash

from shardrel.checkpoint.coverage import Box
from shardrel.checkpoint.ownership import pack
from shardrel.digest import digest_of
from shardrel.records.checkpoint import Region
from shardrel.records.descriptor import TENSOR_BYTES, Descriptor
from shardrel.store.objects import put
from shardrel.store.port import Store

PIECE = 16 * 1024 * 1024
"""A region has at most this many bytes, so that a restore's memory is bounded and what has not changed is found."""

THREADS = 4
"""Hashing and the system's writes release the interpreter's lock; what waits for a disk leaves room for the others."""

Elements = Callable[[Box], npt.NDArray[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A box of a tensor that this rank stores.

    Attributes:
        item_bytes: Of one element.
        elements: The bytes of a box, which lies inside of this one.
        replicas: Ranks that hold the same elements.
    """

    box: Box
    item_bytes: int
    elements: Elements
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who captured the bytes, and of which moment they are.

    Attributes:
        parent: The commit record that the attempt follows: the run's head.
    """

    rank: int
    attempt: str
    step: int
    parent: str | None = None


class Kept:
    """Objects of the last checkpoint that this process saved, by a checksum of their bytes.

    What has not changed since is found here and named again, as long as that checkpoint is the run's head, which holds
    it in the store. One for each run and process. Memory changes by training and by accident; that is what a 128-bit
    checksum tells.
    """

    def __init__(self) -> None:
        self._admitted: dict[str, Descriptor] = {}
        self._written: dict[str, Descriptor] = {}
        self._commit: str | None = None

    def begin(self, parent: str | None) -> None:
        """A save begins. What one wrote that was not admitted is forgotten, and all where another is the head now."""
        if parent != self._commit:
            self.forget()
        self._written = {}

    def put(self, store: Store, data: memoryview) -> Descriptor:
        """The object of these bytes, written where it is not one of the last checkpoint's."""
        checksum = xxhash.xxh3_128_hexdigest(data)
        found = self._admitted.get(checksum) or put(store, data, TENSOR_BYTES)[0]
        self._written[checksum] = found
        return found

    def admitted(self, commit: str) -> None:
        """The save's checkpoint was admitted: the digest of its commit record."""
        self._admitted, self._commit = self._written, commit

    def forget(self) -> None:
        """Nothing is relied on: a restore may have found the head damaged."""
        self._admitted, self._commit = {}, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A region in the store, with the position of the piece that it is a part of."""

    piece: int
    region: Region


def write_pieces(store: Store, pieces: Sequence[Piece], stamp: Stamp, kept: Kept) -> list[Written]:
    """Store all pieces; durable on return.

    Small neighbours share an object, a large piece is cut into several.

    Raises:
        IntegrityError, OutcomeUnknownError, UnavailableError: What the store says.
    """
    kept.begin(stamp.parent)
    parts = [(index, box) for index, piece in enumerate(pieces) for box in cut(piece.box, piece.item_bytes, PIECE)]
    lengths = [prod(box.sizes) * pieces[index].item_bytes for index, box in parts]
    groups = [[parts[i] for i in group] for group in pack(lengths)]
    if len(groups) <= 1:
        return [one for group in groups for one in _write(store, pieces, group, stamp, kept)]
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda group: _write(store, pieces, group, stamp, kept), groups))
    return [one for written in done for one in written]


def cut(box: Box, item_bytes: int, limit: int) -> list[Box]:
    """Boxes of at most ``limit`` bytes that tile a box, each of them one run of its row-major bytes."""
    if prod(box.sizes) * item_bytes <= max(limit, item_bytes):
        return [box]
    axis = next(index for index, size in enumerate(box.sizes) if size > 1)
    row = prod(box.sizes[axis + 1 :]) * item_bytes
    rows = max(1, limit // row)
    starts = range(0, box.sizes[axis], rows)
    made = [_along(box, axis, start, min(rows, box.sizes[axis] - start)) for start in starts]
    return made if row <= limit else [part for one in made for part in cut(one, item_bytes, limit)]


def _along(box: Box, axis: int, start: int, size: int) -> Box:
    offsets, sizes = list(box.offsets), list(box.sizes)
    offsets[axis] += start
    sizes[axis] = size
    return Box(tuple(offsets), tuple(sizes))


def _write(
    store: Store, pieces: Sequence[Piece], group: list[tuple[int, Box]], stamp: Stamp, kept: Kept
) -> list[Written]:
    """One object of a few regions, one after the other."""
    parts = [pieces[index].elements(box) for index, box in group]
    whole = (parts[0] if len(parts) == 1 else np.concatenate(parts)).data
    descriptor = kept.put(store, whole)
    made, start = [], 0
    for (index, box), part in zip(group, parts, strict=True):
        region = Region(
            offsets=box.offsets,
            sizes=box.sizes,
            object=descriptor,
            start=start,
            length=len(part),
            digest=descriptor.digest if len(parts) == 1 else digest_of(part.data),
            elements=prod(box.sizes),
            encoding="raw-little-endian.v1",
            rank=stamp.rank,
            replicas=pieces[index].replicas,
            attempt=stamp.attempt,
            step=stamp.step,
        )
        start += len(part)
        made.append(Written(piece=index, region=region))
    return made
