"""Train a small byte-level model on a pinned run, with exact resume at any world size.

    torchrun --standalone --nproc-per-node=2 examples/train_bytes.py \\
        --store DIR --dataset default --keys DIR --run-id RUN --steps 40 --checkpoint-every 10

The lines that make a plain torch loop exact are those of ``train``. Rank 0 prints one JSON object an event: digests,
counts and codes, never a text.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from shardrel.checkpoint.group import Group
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.errors import ShardrelError
from shardrel.store.open import open_store
from shardrel.store.verdicts import conforming
from shardrel.train.admission import join
from shardrel.train.gradients import mean_loss, reduce_gradients
from shardrel.train.group import connect
from shardrel.train.pin import TrainPlan
from shardrel.train.session import TorchRandom, checkpoint, resume, steps
from shardrel.trust.keyring import load

PAD = 256
LENGTH = 129


class ByteModel(torch.nn.Module):
    """Predicts the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(257, 32)
        self.recurrent = torch.nn.GRU(32, 64, batch_first=True)
        self.head = torch.nn.Linear(64, 256)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean over the samples of each one's mean loss; shape (n, LENGTH) of bytes and padding."""
        hidden, _ = self.recurrent(self.embedding(rows[:, :-1]))
        target = rows[:, 1:]
        losses = torch.nn.functional.cross_entropy(
            self.head(hidden).transpose(1, 2), target.clamp(max=255), reduction="none"
        )
        real = (target != PAD).float()
        return ((losses * real).sum(1) / real.sum(1).clamp(min=1)).mean()


def train(group: Group, options: argparse.Namespace) -> None:
    """The whole job, as every rank runs it."""
    torch.manual_seed(options.seed)
    model = ByteModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    parts = {"model": model, "optimizer": optimizer, "random": TorchRandom()}

    store = conforming(open_store(options.store, endpoint_url=options.endpoint_url), options.dataset)
    cache = ShardCache(options.cache, store)
    signer = load(options.keys, options.key) if group.rank == 0 else None
    plan = TrainPlan(
        columns=(options.text_column,),
        global_batch=options.global_batch,
        seed=options.seed,
        split=options.split or None,
    )
    pin = join(group, store, cache, dataset=options.dataset, run=options.run, plan=plan)
    say(
        group, "joined", run=options.run, root=pin.root, worldSize=group.world_size,
        samples=pin.order.epoch_samples, split=pin.plan.split, splits=pin.splits,
    )  # fmt: skip
    begin = resume(group, store, pin, parts, signer=signer)
    say(
        group, "resumed" if begin.generation is not None else "started", generation=begin.generation,
        step=begin.cut.step, cursor=begin.cut.cursor, ledger=begin.cut.ledger, savedBy=begin.world_size,
        helped=begin.helped, passedOver=list(begin.passed_over),
    )  # fmt: skip
    last = min(options.steps, begin.cut.step + (options.stop_after or options.steps))
    for batch in steps(group, cache, pin, begin.cut, until=last):
        die_if_asked(group, options, batch)
        loss = model(batch.ragged(options.text_column).padded(LENGTH, PAD)) if batch.size else None
        optimizer.zero_grad()
        if loss is not None:
            loss.backward()
        reduce_gradients(group, model.parameters(), batch)
        optimizer.step()
        say(group, "step", step=batch.step, loss=round(mean_loss(group, loss, batch), 6), ledger=batch.after.ledger)
        note_samples(group, options, batch)
        if batch.after.step % options.checkpoint_every == 0 or batch.after.step == options.steps:
            saved = checkpoint(group, store, pin, parts, batch.after, signer=signer)
            say(group, "checkpoint", generation=saved.generation, step=saved.step, commit=saved.commit)
    say(group, "finished", step=last, cacheCorrupt=cache.corrupt)


def say(group: Group, event: str, **facts: Any) -> None:
    """One line an event, by rank 0."""
    if group.rank == 0:
        write_line({"event": event, **facts})


def write_line(facts: dict[str, Any]) -> None:
    """In one write, since ranks share the output."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def note_samples(group: Group, options: argparse.Namespace, batch: StepBatch) -> None:
    """Append what the step consumed, in global order; a step that a resume repeats stands twice."""
    if group.rank == 0 and options.samples_out is not None:
        line = {"step": batch.step, "samples": batch.samples.tolist(), "ledger": batch.after.ledger}
        with options.samples_out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def die_if_asked(group: Group, options: argparse.Namespace, batch: StepBatch) -> None:
    """For demonstrations: the last rank ends as if the machine took it."""
    if batch.step == options.kill_rank_at and group.rank == group.world_size - 1:
        os.kill(os.getpid(), signal.SIGKILL)


def read_options(arguments: list[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", required=True, help="where the release is")
    parser.add_argument("--endpoint-url", help="of an S3 server")
    parser.add_argument("--dataset", default="default")
    parser.add_argument("--keys", type=Path, required=True, help="folder with the runner's key")
    parser.add_argument("--key", default="admin", help="name of the runner's key")
    # torchrun takes --run for one of its own options, even behind the script.
    parser.add_argument("--run-id", "--run", dest="run", required=True, help="from: shardrel run start")
    parser.add_argument("--cache", type=Path, default=Path(".shardrel/cache"), help="shared by the ranks of a host")
    parser.add_argument("--steps", type=int, default=40, help="of the whole run, over all restarts")
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--global-batch", type=int, default=16, help="samples a step, over all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", default="train", help="an empty one reads all that the release has")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds to wait for other ranks")
    parser.add_argument("--stop-after", type=int, help="end after so many steps of this start")
    parser.add_argument("--kill-rank-at", type=int, help="the last rank gets SIGKILL before this step")
    parser.add_argument("--samples-out", type=Path, help="JSON lines of what each step consumed")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run, and end with the status of what happened."""
    options = read_options(arguments)
    try:
        with connect(timeout_s=options.timeout) as group:
            train(group, options)
    except ShardrelError as err:  # outside, so that the other ranks learn what ended this one
        return failed(err)
    return 0


def failed(err: ShardrelError) -> int:
    """Say what ended this rank; the status to leave with."""
    rank = int(os.environ.get("RANK", "0"))
    about = {"code": err.code, "message": err.message, "exitStatus": err.exit_status}
    write_line({"event": "failed", "rank": rank, **about, "ranks": err.context.get("ranks"), "context": err.context})
    return err.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
