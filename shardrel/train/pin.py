"""What a job is pinned to, as a value. Source: schemas/SPEC.md#runs."""

from dataclasses import dataclass, field

from shardrel.data.order import ORDER_FUNCTION, SampleOrder
from shardrel.records.checkpoint import OrderParameters
from shardrel.records.release import Release
from shardrel.records.run import RunRecord
from shardrel.records.schema import RecordSchema
from shardrel.trust.key_encryption import Unlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPlan:
    """What the script decides, the same on every rank.

    Attributes:
        columns: Payload columns that batches hold.
        global_batch: Samples a step, over all ranks; may change at a resume.
        seed: Of the sample order.
        block_shards: Shards shuffled into each other; bounds the decoded shards in memory.
        split: Null for the whole release.
    """

    columns: tuple[str, ...]
    global_batch: int
    seed: int = 0
    block_shards: int = 8
    split: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRun:
    """A run whose root all ranks verified and agreed on. It holds for the job's whole life.

    Attributes:
        unlocked: Keys of an encrypted release, in memory.
    """

    record: RunRecord
    release: Release
    schema: RecordSchema
    plan: TrainPlan
    order: SampleOrder
    unlocked: Unlocked = field(default_factory=Unlocked, repr=False, compare=False)

    @property
    def root(self) -> str:
        """Digest of the root manifest."""
        return self.record.root

    @property
    def parameters(self) -> OrderParameters:
        """The order as a checkpoint holds it."""
        return OrderParameters(
            function=ORDER_FUNCTION, seed=self.plan.seed, block_shards=self.plan.block_shards, split=self.plan.split
        )
