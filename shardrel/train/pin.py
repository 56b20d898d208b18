"""What a job is pinned to, as a value. Source: schemas/SPEC.md#runs."""

from dataclasses import dataclass, field
from typing import Literal

from shardrel.checkpoint.writing import Kept
from shardrel.data.mix import RunOrder
from shardrel.data.order import ORDER_FUNCTION
from shardrel.digest import Digest
from shardrel.records.checkpoint import OrderParameters
from shardrel.records.release import Release
from shardrel.records.run import RunRecord
from shardrel.train.inputs import PinnedInput, identity, splits_of
from shardrel.train.watch import Watch

ClosedPolicy = Literal["stop", "renew", "go-on"]
"""What a job does once the run's permit is closed. Its root stays in any case.

``stop``: the job fails on every rank. ``renew``: it asks for a new permit, and fails where it gets none. ``go-on``: it
asks too, and where only a re-check is outstanding it trains on without checkpoints; a hit ends it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPlan:
    """What the script decides, the same on every rank.

    Attributes:
        columns: Payload columns that batches hold.
        global_batch: Samples a step, over all ranks; may change at a resume.
        seed: Of the sample order.
        block_shards: Shards shuffled into each other; bounds the decoded shards in memory.
        split: The split that is read. Null reads all that the release has, test and validation among them.
        on_closed: What a checkpoint does when a fence has closed the run's permit, see ``ClosedPolicy``.
    """

    columns: tuple[str, ...]
    global_batch: int
    seed: int = 0
    block_shards: int = 8
    split: str | None = None
    on_closed: ClosedPolicy = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRun:
    """A run whose root all ranks verified and agreed on. It holds for the job's whole life.

    Attributes:
        inputs: The release, or those of a mix in the order of the run record.
        watch: Where the job shows how it goes.
        kept: What this process saved last.
    """

    record: RunRecord
    inputs: tuple[PinnedInput, ...]
    plan: TrainPlan
    order: RunOrder
    watch: Watch = field(default_factory=Watch, repr=False, compare=False)
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)

    @property
    def root(self) -> str:
        """Digest of the root manifest."""
        return self.record.root

    @property
    def release(self) -> Release:
        """The root manifest; the first one of a mix."""
        return self.inputs[0].release

    @property
    def splits(self) -> list[str]:
        """Names of the splits that the releases have, whichever of them is read."""
        return splits_of(self.inputs)

    @property
    def identity(self) -> Digest:
        """What the ledger begins with."""
        return identity(self.record)

    @property
    def parameters(self) -> OrderParameters:
        """The order as a checkpoint holds it."""
        return OrderParameters(
            function=ORDER_FUNCTION, seed=self.plan.seed, block_shards=self.plan.block_shards, split=self.plan.split
        )
