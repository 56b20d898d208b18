"""A pinned job whose store is an S3 server: it trains, is killed, resumes at another world size, and lists nothing."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shardrel.data import ledger
from shardrel.data.order import SampleOrder
from shardrel.digest import raw_digest
from shardrel.gate import runs
from shardrel.trust.keyring import save
from tests.support.rank_processes import RankProcess, job
from tests.support.stores import s3_store
from tests.support.torchrun import ROOT
from tests.support.training import TrainingWorld, move_alias, training_world

if TYPE_CHECKING:
    from tests.support.shared_server import S3Server

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

STEPS = 12


@pytest.fixture
def world(seaweed: "S3Server", tmp_path: Path) -> TrainingWorld:
    store = s3_store(seaweed.versioned, seaweed.endpoint_url)
    world = training_world(store, tmp_path, records=40, shards=5)
    save(tmp_path / "keys", world.signer)
    return world


@contextmanager
def started(world: TrainingWorld, folder: Path, ranks: int, *words: object) -> Iterator[list[RankProcess]]:
    line = [
        world.store.url, folder / "cache", "--keys", folder / "keys", "--endpoint-url", os.environ["AWS_ENDPOINT_URL"],
        "--steps", STEPS, "--checkpoint-every", 4, "--samples-out", folder / "samples.jsonl", "--timeout", 20,
        "--record", folder / "requests.txt", *words,
    ]  # fmt: skip
    with job(ROOT / "tests" / "distributed" / "worker.py", ranks, line) as started:
        yield started


def test_a_job_on_s3_is_killed_and_resumes_on_three_ranks(world: TrainingWorld, tmp_path: Path) -> None:
    with started(world, tmp_path, 2, "--pause", 0.4) as ranks:
        while ranks[1].line("step")["step"] < 5:
            pass
        for one in ranks:
            one.signal(signal.SIGKILL)
    others = move_alias(world, tmp_path)
    with started(world, tmp_path, 3) as ranks:
        ended = [one.end() for one in ranks]
    assert [status for status, _, _ in ended] == [0, 0, 0], ended
    (begin,) = [event for event in ended[0][1] if event["event"] == "resumed"]
    assert (begin["step"], begin["saved_by"]) == (4, 2)

    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    consumed = {line["step"]: line for line in lines}
    order = SampleOrder(sizes=tuple(shard.records for shard in world.release.shards), seed=0, block_shards=8)
    expected = ledger.replay(ledger.genesis(world.root), order, 8, STEPS).ledger
    assert (sorted(consumed), consumed[STEPS - 1]["ledger"]) == (list(range(STEPS)), expected)
    view = runs.show(world.store, world.dataset, world.run)
    assert (view.generation, view.head.step) == (1, STEPS)  # type: ignore[union-attr]

    asked = [line.split(" ") for line in (tmp_path / "requests.txt").read_text().splitlines()]
    assert {operation for operation, _ in asked} == {"read", "create", "swap"}
    assert not [key for _, key in asked for digest in others if raw_digest(digest).hex() in key]
