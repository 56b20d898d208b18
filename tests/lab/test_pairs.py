"""A state goes from any number of ranks up to six to any other, offline, and stays the same bit for bit."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from shardrel.cli.drill_crash import the_programs
from shardrel.lab import child
from shardrel.lab.fashion import Pins, read_table
from shardrel.lab.retained import retained
from shardrel.lab.scene import DATASET, RUN, prepare
from shardrel.lab.tasks import Place, Publication, Publish, Reshard, Train
from shardrel.store.local import LocalStore
from tests.support.lab import BATCH, HereAndNow
from tests.support.publishing import NOW


def walk(most: int) -> Iterator[int]:
    """World sizes in which every ordered pair, also of one with itself, stands side by side once."""
    for first in range(1, most + 1):
        yield first
        for second in range(first + 1, most + 1):
            yield from (first, second)
    yield 1


def test_the_walk_takes_every_pair() -> None:
    assert sorted(pairwise(walk(6))) == [(a, b) for a in range(1, 7) for b in range(1, 7)]


@pytest.mark.parametrize("most", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_every_pair_of_world_sizes_holds_one_state(most: int, data: tuple[Path, Pins], tmp_path: Path) -> None:
    store, keys = tmp_path / "store", tmp_path / "keys"
    prepare(LocalStore(store), keys, tmp_path / "source.arrow", read_table(*data), the_programs(), lambda: NOW)
    place = Place(store=str(store), keys=str(keys), dataset=DATASET, run=RUN, seed=1)
    handoff = str(tmp_path / "handoff")
    HereAndNow().run(
        "train",
        Train(place=place, cache=str(tmp_path / "cache"), handoff=handoff, batches=1, global_batch=BATCH),
    )
    start = Publication(store=str(store), attempt="start", handoff=f"{handoff}/1", world_size=1)
    child.publish(Publish(place=place, publications=(start,), watched=False))
    sizes = list(walk(most))
    for generation, after in enumerate(sizes[1:]):
        child.reshard(Reshard(place=place, attempt=f"at-{generation}", generation=generation, world_size=after))
    facts = [one.fact for one in retained(LocalStore(store), DATASET, RUN)]
    assert [one.world_size for one in facts] == sizes
    assert len({(one.state_root, one.ledger, one.cursor, one.step) for one in facts}) == 1
