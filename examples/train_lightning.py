"""The same training as ``train_bytes`` through Lightning: its data hook hands over the run's own steps.

torchrun --nproc-per-node=2 examples/train_lightning.py --store DIR --keys DIR --run-id RUN --steps 40
"""

import sys
from pathlib import Path
from typing import Any

import lightning
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.train_bytes import LENGTH, PAD, ByteModel, failed, note_samples, read_options, say
from shardrel.checkpoint.group import Group
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.errors import ShardrelError
from shardrel.store.open import open_store
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.loader import dataset
from shardrel.train.pin import TrainPlan
from shardrel.train.session import checkpoint, resume
from shardrel.trust.keyring import load


class PinnedModule(lightning.LightningModule):
    """A module whose batches are a pinned run's steps."""

    def __init__(self, group: Group, options: Any) -> None:
        super().__init__()
        self.model, self.group, self.options = ByteModel(), group, options
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.store = open_store(options.store, endpoint_url=options.endpoint_url)
        self.cache = ShardCache(options.cache, self.store)
        self.signer = load(options.keys, options.key) if group.rank == 0 else None
        plan = TrainPlan(
            columns=(options.text_column,), global_batch=options.global_batch, seed=options.seed,
            split=options.split or None,
        )  # fmt: skip
        self.pin = join(group, self.store, self.cache, dataset=options.dataset, run=options.run, plan=plan)
        self.parts = {"model": self.model, "optimizer": self.optimizer}
        self.begin = resume(group, self.store, self.pin, self.parts, signer=self.signer).cut

    def train_dataloader(self) -> Any:
        left = self.options.steps - self.begin.step
        steps = dataset(self.group, self.cache, self.pin, self.begin, steps=left)
        return torch.utils.data.DataLoader(steps, batch_size=None, collate_fn=lambda batch: batch)

    def transfer_batch_to_device(self, batch: StepBatch, device: Any, dataloader_idx: int) -> StepBatch:
        return batch

    def training_step(self, batch: StepBatch, batch_idx: int) -> torch.Tensor:
        if not batch.size:
            return sum(weights.sum() for weights in self.model.parameters()) * 0  # keeps the ranks' collectives matched
        loss = self.model(batch.ragged(self.options.text_column).padded(LENGTH, PAD))
        return loss * batch.share * self.group.world_size  # DDP takes the mean over ranks; this weighs by true counts

    def on_train_batch_end(self, outputs: Any, batch: StepBatch, batch_idx: int) -> None:
        say(self.group, "step", step=batch.step, ledger=batch.after.ledger)
        note_samples(self.group, self.options, batch)
        if batch.after.step % self.options.checkpoint_every == 0:
            checkpoint(self.group, self.store, self.pin, self.parts, batch.after, signer=self.signer)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer


def main(arguments: list[str]) -> None:
    """One job."""
    options = read_options(arguments)
    with connect(timeout_s=options.timeout) as group:
        torch.manual_seed(options.seed)
        module = PinnedModule(group, options)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(
            accelerator="cpu", devices=group.world_size, max_epochs=1, use_distributed_sampler=False,
            strategy="ddp" if group.world_size > 1 else "auto", enable_model_summary=False, **quiet,
        )  # fmt: skip
        trainer.fit(module)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ShardrelError as err:
        sys.exit(failed(err))
