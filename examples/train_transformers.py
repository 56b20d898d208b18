"""The same training as ``train_bytes`` through the Trainer of Hugging Face: its data hook hands over the run's own steps.

torchrun --nproc-per-node=2 examples/train_transformers.py --store DIR --keys DIR --run-id RUN --steps 40
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.train_bytes import LENGTH, PAD, ByteModel, failed, note_samples, read_options, say
from shardrel.checkpoint.group import Group
from shardrel.data.cache import ShardCache
from shardrel.errors import ShardrelError
from shardrel.store.open import open_store
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.loader import dataset
from shardrel.train.pin import TrainPlan
from shardrel.train.session import checkpoint, resume
from shardrel.trust.keyring import load


class PinnedTrainer(transformers.Trainer):
    """A trainer whose batches are a pinned run's steps."""

    def __init__(self, group: Group, options: Any, folder: str) -> None:
        self.group, self.options, self.batch = group, options, None
        model = ByteModel()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        self.store = open_store(options.store, endpoint_url=options.endpoint_url)
        self.cache = ShardCache(options.cache, self.store)
        self.signer = load(options.keys, options.key) if group.rank == 0 else None
        plan = TrainPlan(
            columns=(options.text_column,), global_batch=options.global_batch, seed=options.seed,
            split=options.split or None,
        )  # fmt: skip
        self.pin = join(group, self.store, self.cache, dataset=options.dataset, run=options.run, plan=plan)
        self.parts = {"model": model, "optimizer": optimizer}
        self.begin = resume(group, self.store, self.pin, self.parts, signer=self.signer).cut
        settings = transformers.TrainingArguments(
            output_dir=folder, max_steps=options.steps - self.begin.step, report_to=[], save_strategy="no",
            remove_unused_columns=False, use_cpu=True, disable_tqdm=True, logging_strategy="no", max_grad_norm=0,
        )  # fmt: skip
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        steps = dataset(group, self.cache, self.pin, self.begin)
        super().__init__(model, settings, train_dataset=steps, optimizers=(optimizer, constant))
        self.remove_callback(transformers.PrinterCallback)
        self.add_callback(_AfterStep(self))

    def get_train_dataloader(self) -> Any:
        # Not prepared by accelerate, which would deal the batches out to the ranks once more.
        return torch.utils.data.DataLoader(
            self.train_dataset, batch_size=None, collate_fn=lambda batch: {"step": batch}
        )

    def compute_loss(self, model: Any, inputs: dict[str, Any], **more: Any) -> torch.Tensor:
        batch = self.batch = inputs["step"]
        if not batch.size:
            return sum(weights.sum() for weights in model.parameters()) * 0  # keeps the ranks' collectives matched
        loss = model(batch.ragged(self.options.text_column).padded(LENGTH, PAD))
        return loss * batch.share * self.group.world_size  # DDP takes the mean over ranks; this weighs by true counts


class _AfterStep(transformers.TrainerCallback):
    def __init__(self, trainer: PinnedTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        trainer, batch = self.trainer, self.trainer.batch
        say(trainer.group, "step", step=batch.step, ledger=batch.after.ledger)
        note_samples(trainer.group, trainer.options, batch)
        if batch.after.step % trainer.options.checkpoint_every == 0:
            checkpoint(trainer.group, trainer.store, trainer.pin, trainer.parts, batch.after, signer=trainer.signer)


def main(arguments: list[str]) -> None:
    """One job."""
    options = read_options(arguments)
    with connect(timeout_s=options.timeout) as group, tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(options.seed)
        PinnedTrainer(group, options, folder).train()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ShardrelError as err:
        sys.exit(failed(err))
