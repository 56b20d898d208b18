"""The chapter in which a training job is killed and goes on at another world size, sample by sample as if nothing was."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.demo.narrator import KEYS, ROOT, Narrator, environment, insist
from examples.demo.releasing import ALIAS, Released

STEPS = 24
EVERY = 6
KILLED_AT = 15
SCRIPT = ROOT / "examples" / "train_bytes.py"

Samples = dict[int, list[list[int]]]


def training(tell: Narrator, released: Released) -> None:
    """Chapter: one run straight through on two ranks, and one that loses a rank and goes on with three."""
    tell.chapter("Training, pinned to the root")
    straight = _straight(tell, released)
    broken = _broken(tell, released)
    insist(set(straight) == set(range(STEPS)), "the uninterrupted run did not take every step")
    insist(broken == straight, "the interrupted run consumed other samples")
    consumed = sum(len(samples) for samples in straight.values())
    tell.say(f"    both runs consumed the same {consumed} samples in the same order, at 2 ranks, and at 2 and then 3")
    tell.say(f"    step {KILLED_AT} of both began with (shard, sample) {straight[KILLED_AT][:4]}")


def _straight(tell: Narrator, released: Released) -> Samples:
    _start(tell, released, "straight")
    events = _torchrun(tell, "straight", 2)
    insist(_last(events, "finished")["step"] == STEPS, "the run did not finish")
    tell.shardrel("run", "finish", "straight", show=("state",))
    return _consumed(tell.folder / "straight.jsonl")


def _broken(tell: Narrator, released: Released) -> Samples:
    _start(tell, released, "broken")
    events = _torchrun(tell, "broken", 2, "--kill-rank-at", str(KILLED_AT), dies=True)
    insist(_last(events, "step")["step"] < KILLED_AT, "the run went on without a rank")
    tell.say(f"    rank 1 got SIGKILL before step {KILLED_AT}; the job is gone")
    events = _torchrun(tell, "broken", 3)
    resumed = _last(events, "resumed")
    insist(resumed["step"] == KILLED_AT - KILLED_AT % EVERY, "it did not go on from the last committed checkpoint")
    insist(_last(events, "joined")["root"] == released.root, "it joined another root")
    tell.say(f"    3 ranks went on from checkpoint {resumed['generation']}, step {resumed['step']}, saved by 2 ranks")
    listed = tell.shardrel("checkpoint", "list", "broken")
    insist(len(listed["checkpoints"]) == STEPS // EVERY, "there are other checkpoints than expected")
    for one in listed["checkpoints"]:
        tell.say(
            f"    generation {one['generation']}: step {one['step']}, {one['state']}, saved by {one['worldSize']} ranks"
        )
    sound = tell.shardrel("checkpoint", "preflight", "broken", show=("verdict",))
    insist(sound["verdict"] == "PASSED", "the newest checkpoint could not be restored")
    return _consumed(tell.folder / "broken.jsonl")


def _start(tell: Narrator, released: Released, run: str) -> None:
    started = tell.shardrel("run", "start", "--alias", ALIAS, "--run-id", run, show=("runId", "root", "generation"))
    insist(started["root"] == released.root, "the run is pinned to another root")


def _torchrun(tell: Narrator, run: str, ranks: int, *more: str, dies: bool = False) -> list[dict[str, Any]]:
    """Start a job and wait for its end.

    Returns:
        The events that it printed.
    """
    job = ["--store", tell.store, "--keys", KEYS, "--run-id", run, "--cache", "cache", "--steps", str(STEPS)]
    job += ["--checkpoint-every", str(EVERY), "--samples-out", f"{run}.jsonl", "--timeout", "60", *more]
    launch = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={ranks}"]
    tell.say(f"$ torchrun {shlex.join([*launch, os.path.relpath(SCRIPT, tell.folder), *job])}")
    command = [sys.executable, "-m", "torch.distributed.run", *launch, str(SCRIPT), *job]
    done = subprocess.run(
        command,
        cwd=tell.folder,
        env={**environment(), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    insist((done.returncode != 0) == dies, f"torchrun ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event"')]


def _last(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found = [event for event in events if event["event"] == kind]
    insist(bool(found), f"the job did not say {kind!r}")
    return found[-1]


def _consumed(path: Path) -> Samples:
    """Samples by step; a step that a resume took again must have consumed what it consumed before."""
    consumed: Samples = {}
    for line in path.read_text().splitlines():
        step = json.loads(line)
        before = consumed.setdefault(step["step"], step["samples"])
        insist(before == step["samples"], f"step {step['step']} consumed other samples the second time")
    return consumed
