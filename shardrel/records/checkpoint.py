"""Checkpoint manifest and commit record. Source: schemas/SPEC.md#checkpoints."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import Count, DigestField, Name, Positive, Record

# The tiling check looks at 2^d corners of a box.
MAX_DIMENSIONS = 12


class Region(Record, frozen=True, kw_only=True):
    """A stored box of one tensor.

    Attributes:
        offsets: First element of the box, per dimension.
        sizes: Elements of the box, per dimension.
        object: The object that holds it; ``start`` and ``length`` are the bytes inside of it.
        digest: SHA-256 of exactly those bytes.
        elements: Tensor elements stored, without padding.
        rank: The rank that owns this copy. ``attempt`` and ``step`` are what it captured.
        replicas: All ranks that held one, ascending.
    """

    offsets: tuple[Count, ...]
    sizes: tuple[Count, ...]
    object: Descriptor
    start: Count
    length: Count
    digest: DigestField
    elements: Count
    encoding: Literal["raw-little-endian.v1"]
    rank: Count
    replicas: tuple[Count, ...]
    attempt: Name
    step: Count


class TensorEntry(Record, frozen=True, kw_only=True):
    """One logical tensor; its regions tile ``shape`` without gap or overlap."""

    name: str
    shape: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MAX_DIMENSIONS)]
    dtype: str
    regions: tuple[Region, ...]


class Cut(Record, frozen=True, kw_only=True):
    """One moment: step, epoch and the global data cursor in samples."""

    step: Count
    epoch: Count
    cursor: Count
    ledger: DigestField


class OrderParameters(Record, frozen=True, kw_only=True):
    """What, beside the root, decides the sample order; a resume with others is refused."""

    function: Literal["block-splitmix64.v1"]
    seed: Count
    block_shards: Positive
    split: str | None


class CheckpointManifest(
    Record, tag_field="schema", tag="training.shard.checkpoint.v1", omit_defaults=True, frozen=True, kw_only=True
):
    """Everything of one checkpoint attempt.

    Attributes:
        order: Null where the run's data does not come from a sample order.
        state: Closed typed trees by name (SPEC #state-tree); their tensors are in ``tensors``.
        required_state: Names that ``state`` must hold: tensor-complete is not training-complete.
        owners: Paths of which one rank's copy was taken by declaration, with that rank; of everything else that several
            ranks held the copies were equal. Absent where there is none.
    """

    # Terabytes have hundreds of thousands of regions.
    MAX_BYTES: ClassVar[int] = 1 << 30

    run_id: Name
    root: DigestField
    permit: str
    generation: Count
    attempt: Name
    world_size: Positive
    cut: Cut
    order: OrderParameters | None
    tensors: tuple[TensorEntry, ...]
    state: dict[str, Any]
    required_state: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    owners: Annotated[dict[str, Count], msgspec.Meta(min_length=1)] | None = None


class CommitRecord(Record, tag_field="schema", tag="training.shard.commit.v1", frozen=True, kw_only=True):
    """The only object a checkpoint admission may name: ``runs/<run>/commits/<generation>``.

    Attributes:
        boundary: How far retention had gone when the attempt began; what was condemned behind it may be of it.
    """

    run_id: Name
    root: DigestField
    generation: Count
    parent: DigestField | None
    manifest: Descriptor
    attempt: Name
    operation_id: Name
    permit: str
    tombstone_watermark: Count
    benchmark_fence: Count
    boundary: Count
    world_size: Positive
    cut: Cut
