"""What a rank shows: ready only once its root is pinned and verified; figures by root; events without content."""

import dataclasses
import io
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from torch.utils.data import DataLoader

from shardrel.checkpoint.group import Group, SoloGroup
from shardrel.data import ledger
from shardrel.data.batches import StepBatch
from shardrel.data.cache import ShardCache
from shardrel.data.packing import PackedBatch, PackPlan
from shardrel.data.shards import shard_descriptor
from shardrel.digest import raw_digest
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, RunFailedError
from shardrel.store.layout import object_key
from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.loader import dataset, loader, packed
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import steps
from shardrel.train.surroundings import EVENTS, ROOT, WATCH, environment_watch
from shardrel.train.watch import Watch
from shardrel.watch.events import Events
from shardrel.watch.figures import JOB, METRICS, Figures
from tests.support.rank_processes import free_port
from tests.support.ranks import all_good
from tests.support.training import TrainingWorld, training_world

PLAN = TrainPlan(columns=("text",), global_batch=8)
SAID = ["joining", "pinned", "reads-all-splits"]


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path, records=40)


def pinned(world: TrainingWorld, folder: Path, watch: Watch) -> PinnedRun:
    cache = ShardCache(folder / "cache", world.store)
    return join(SoloGroup(), world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN, watch=watch)


def test_a_run_that_names_no_split_of_several_says_so_once(
    world: TrainingWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outs = [io.StringIO() for _ in range(3)]

    def part(group: Group, split: str | None, *, written: bool) -> list[str]:
        cache = ShardCache(tmp_path / "cache", world.store)
        plan, watch = dataclasses.replace(PLAN, split=split), Watch(outs[group.rank] if written else None)
        return join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=plan, watch=watch).splits

    for split, written in ((None, True), (None, False), ("train", True), ("train", False)):
        assert all_good(run_ranks(3, lambda group: part(group, split, written=written))) == [["test", "train"]] * 3  # noqa: B023
    said = [json.loads(line) for out in outs for line in out.getvalue().splitlines()]
    assert [(one["rank"], one["splits"]) for one in said if one["event"] == "reads-all-splits"] == [
        (0, ["test", "train"])
    ]
    [warned] = [record for record in caplog.records if record.name == "shardrel.train"]
    assert "test, train" in warned.getMessage()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.read().decode()


def test_ready_means_that_the_root_is_pinned_and_verified(world: TrainingWorld, tmp_path: Path) -> None:
    watch = Watch()
    with watch.served("127.0.0.1", 0) as port:
        assert get(port, "/readyz")[0] == 503
        world.store.read(object_key(world.root), max_bytes=1 << 20)  # type: ignore[arg-type]  # reaching it is not enough
        watch.begins(SoloGroup(), world.run)
        watch.resolved(world.release, world.root, ShardCache(tmp_path / "other", world.store).counts, 40)
        assert get(port, "/readyz")[0] == 503
        pinned(world, tmp_path, watch)
        status, text = get(port, "/readyz")
        assert (status, json.loads(text)) == (200, {"ready": True, "root": world.root, "run": world.run})
        watch.failed(RunFailedError(ErrorCode.RUN_RANK_FAILED, "gone", ranks=["1"]))
        status, text = get(port, "/readyz")
        assert (status, json.loads(text)["code"]) == (503, ErrorCode.RUN_RANK_FAILED)


def test_figures_of_a_job_carry_the_root_and_are_read_by_prometheus(world: TrainingWorld, tmp_path: Path) -> None:
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    given = steps(SoloGroup(), ShardCache(tmp_path / "cache", world.store), pin, ledger.genesis(pin.root))
    for _ in range(3):
        next(given)
    with watch.served("127.0.0.1", 0) as port:
        families = list(text_string_to_metric_families(get(port, "/metrics")[1]))
    samples = {sample.name: sample for family in families for sample in family.samples if sample.labels["root"]}
    assert {sample.labels["root"] for sample in samples.values()} == {world.root}
    totals = world.release.totals
    assert {name: samples[name].value for name in samples if "seconds" not in name} == {
        "shardrel_run_info": 1,
        "shardrel_ready": 1,
        "shardrel_release_shards": 5,
        "shardrel_release_members": 40,
        "shardrel_verified_shards_total": 5,
        "shardrel_verified_members_total": 40,
        "shardrel_cache_corrupt_total": 0,
        "shardrel_fetched_bytes_total": totals.stored_bytes,
        "shardrel_decoded_shards_total": 5,
        "shardrel_prepared_samples_total": 24,
        "shardrel_decompression_ratio": totals.logical_bytes / totals.stored_bytes,
        "shardrel_permit_open": 1,
        "shardrel_steps_total": 3,
        "shardrel_samples_total": 24,
        "shardrel_barriers_total": 1,
    }
    assert samples["shardrel_data_stall_seconds_total"].value > 0
    assert {family.type for family in families} == {"counter", "gauge"}
    assert samples.keys() <= {metric.name for metric in JOB}


def test_a_corrupt_cache_entry_a_bad_digest_and_a_mismatch_are_counted(world: TrainingWorld, tmp_path: Path) -> None:
    watch = Watch()
    pinned(world, tmp_path, watch)
    name = raw_digest(world.release.shards[2].digest).hex()
    (tmp_path / "cache" / "sha256" / name[:2] / name).write_bytes(b"other")
    pinned(world, tmp_path, watch)
    assert watch.figures.get("shardrel_cache_corrupt_total", root=world.root) == 1

    store = FaultyStore(
        world.store,
        [Rule(operation="read", prefix=object_key(world.release.shards[0].digest), fault=Fault.FLIPPED, times=None)],
    )
    with pytest.raises(RunFailedError):
        join(
            SoloGroup(), store, ShardCache(tmp_path / "new", store), dataset=world.dataset, run=world.run, plan=PLAN,
            watch=watch,
        )  # fmt: skip
    code = ErrorCode.STORAGE_DIGEST.value
    assert watch.figures.get("shardrel_digest_failures_total", root=world.root, code=code) == 1
    assert watch.figures.get("shardrel_ready", root=world.root) == 0

    watches = [Watch(), Watch()]

    def part(group: Group) -> PinnedRun:
        cache = ShardCache(tmp_path / f"cache-{group.rank}", world.store)
        told = world.root if group.rank else "sha256:" + "0" * 64
        return join(
            group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN, root=told,
            watch=watches[group.rank],
        )  # fmt: skip

    run_ranks(2, part)
    assert watches[1].figures.get("shardrel_root_mismatches_total", root=world.root) == 1
    assert watches[1].figures.get("shardrel_barrier_wait_seconds_total", root="") > 0


def test_events_are_json_lines_of_digests_and_codes(world: TrainingWorld, tmp_path: Path) -> None:
    out = io.StringIO()
    watch = Watch(out)
    pin = pinned(world, tmp_path, watch)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == SAID
    assert (lines[1]["root"], lines[1]["run"], lines[1]["rank"]) == (pin.root, world.run, 0)


def test_an_event_never_shows_free_text() -> None:
    out = io.StringIO()
    Events(out).say(
        "odd", a="two words", b='quote"', c="line\nend", d=["fine-1", "not fine"], e="é", f="x" * 300, g=1.5
    )
    line = json.loads(out.getvalue())
    assert [line[name] for name in "abcdefg"] == ["withheld"] * 3 + [
        ["fine-1", "withheld"],
        "withheld",
        "withheld",
        1.5,
    ]


def test_an_unknown_figure_or_a_forgotten_label_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Figures().add("shardrel_other")
    with pytest.raises(KeyError):
        Figures().add("shardrel_failures_total", root="")
    assert all(name.endswith("_total") == (metric.kind == "counter") for name, metric in METRICS.items())


def test_an_address_that_is_taken_is_refused() -> None:
    with Watch().served("127.0.0.1", 0) as port, pytest.raises(InvalidInputError) as err:
        Watch().served("127.0.0.1", port).__enter__()
    assert err.value.code == ErrorCode.INPUT_INVALID


@pytest.fixture
def fresh() -> Iterator[None]:
    """The process's own watch, as if it had just begun; the endpoint of the test is given up with it."""
    environment_watch.cache_clear()
    yield
    environment_watch.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_scheduler_asks_for_the_endpoint_the_events_and_the_root(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = free_port()
    for name, value in {WATCH: f"127.0.0.1:{base - 1}", EVENTS: "stderr", ROOT: world.root, "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    cache = ShardCache(tmp_path / "cache", world.store)
    with connect() as group:
        assert get(base, "/readyz")[0] == 503
        join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN)
        assert get(base, "/readyz")[0] == 200
        assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == SAID
        monkeypatch.setenv(ROOT, "sha256:" + "0" * 64)
        with pytest.raises(RunFailedError) as other:
            join(group, world.store, cache, dataset=world.dataset, run=world.run, plan=PLAN)
        assert other.value.code == ErrorCode.RUN_ROOT_DISAGREEMENT
        assert get(base, "/readyz")[0] == 503


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("address", ["9464", "host:", "host:port", ":"])
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv(WATCH, address)
    with pytest.raises(InvalidInputError) as err:
        environment_watch()
    assert err.value.code == ErrorCode.INPUT_INVALID


def test_a_loader_counts_what_the_loop_waits(world: TrainingWorld, tmp_path: Path) -> None:
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    cache = ShardCache(tmp_path / "cache", world.store)
    assert len(list(loader(SoloGroup(), cache, pin, ledger.genesis(pin.root), steps=5))) == 5
    assert watch.figures.get("shardrel_steps_total", root=world.root) == 5
    assert watch.figures.get("shardrel_samples_total", root=world.root) == 40
    assert watch.figures.get("shardrel_data_stall_seconds_total", root=world.root) > 0
    assert watch.ready()[0]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("pack", [False, True])
def test_what_workers_of_a_loader_do_is_in_the_figures_of_their_rank(tmp_path: Path, pack: bool) -> None:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40)
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    stored = world.release.totals.stored_bytes
    (bad,) = {raw_digest(world.release.shards[2].digest).hex()}
    (tmp_path / "cache" / "sha256" / bad[:2] / bad).write_bytes(b"other")
    cache, begin = ShardCache(tmp_path / "cache", world.store), ledger.genesis(pin.root)
    given: Iterable[StepBatch | PackedBatch] = (
        packed(SoloGroup(), cache, pin, begin, PackPlan(column="text", rows=4, length=64), workers=2, steps=3)
        if pack
        else loader(SoloGroup(), cache, pin, begin, workers=2, steps=5)
    )
    samples = sum(batch.size for batch in given)
    figures = {name: watch.figures.get(f"shardrel_{name}_total", root=world.root) for name in _COUNTED}
    assert figures == {
        "samples": samples,
        "prepared_samples": samples,
        "decoded_shards": 5,
        "cache_corrupt": 1,
        "fetched_bytes": stored + shard_descriptor(world.release.shards[2]).size,
    }


_COUNTED = ("samples", "prepared_samples", "decoded_shards", "cache_corrupt", "fetched_bytes")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_of_a_dataloader_of_ones_own_count_too(world: TrainingWorld, tmp_path: Path) -> None:
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    steps_of = dataset(SoloGroup(), ShardCache(tmp_path / "cache", world.store), pin, ledger.genesis(pin.root), steps=5)
    assert len(list(DataLoader(steps_of, batch_size=None, collate_fn=_itself, num_workers=2))) == 5
    assert watch.figures.get("shardrel_prepared_samples_total", root=world.root) == 40
    assert watch.figures.get("shardrel_decoded_shards_total", root=world.root) == 5


def test_a_loader_that_is_gone_holds_nothing_but_its_numbers(world: TrainingWorld, tmp_path: Path) -> None:
    """A job that makes a loader now and then would come to the end of its open files."""
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    cache, opened = ShardCache(tmp_path / "cache", world.store), []
    for _ in range(5):
        for _ in loader(SoloGroup(), cache, pin, ledger.genesis(pin.root), steps=2):
            pass
        opened.append(len(os.listdir("/proc/self/fd")))
    assert len(set(opened[1:])) == 1
    assert watch.figures.get("shardrel_prepared_samples_total", root=world.root) == 5 * 16
    assert watch.figures.get("shardrel_decoded_shards_total", root=world.root) == 5


def _itself(batch: StepBatch) -> StepBatch:
    return batch


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_what_a_worker_finds_wrong_ends_its_rank_by_the_code(tmp_path: Path) -> None:
    world = training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=40)
    watch = Watch()
    pin = pinned(world, tmp_path, watch)
    rule = Rule(operation="read", prefix=object_key(world.release.shards[0].digest), fault=Fault.FLIPPED, times=None)
    cache = ShardCache(tmp_path / "other", FaultyStore(world.store, [rule]))
    with pytest.raises(IntegrityError) as err:
        list(loader(SoloGroup(), cache, pin, ledger.genesis(pin.root), workers=2, steps=5))
    code = ErrorCode.STORAGE_DIGEST
    assert err.value.code == code
    assert watch.figures.get("shardrel_digest_failures_total", root=world.root, code=code.value) == 1
    assert watch.ready()[0] is False


def test_without_its_library_figures_are_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(InvalidInputError) as err:
        Watch().served("127.0.0.1", 0).__enter__()
    assert "pip install prometheus-client" in err.value.message
