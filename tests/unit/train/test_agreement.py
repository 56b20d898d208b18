"""The rule that lets step 0 begin, case by case."""

import msgspec
import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.records.release import Release
from shardrel.store.memory import MemoryStore
from shardrel.train.agreement import Agreed, Disagreed, RankReport, VerifiedShard, agree
from tests.support.training import TrainingWorld, training_world

OTHER = digest_of(b"other")
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    return training_world(MemoryStore(), tmp_path_factory.mktemp("source"))


def good_reports(world: TrainingWorld, world_size: int = 2) -> list[RankReport]:
    shards = world.release.shards
    return [
        RankReport(
            run_id=world.run,
            root=world.root,
            format="f.v1",
            settings=digest_of(b"settings"),
            shards=tuple(
                VerifiedShard(number=number, digest=shards[number].digest, samples=shards[number].records)
                for number in range(rank, len(shards), world_size)
            ),
        )
        for rank in range(world_size)
    ]


def judged(world: TrainingWorld, reports: list[RankReport]) -> Agreed | Disagreed:
    release: Release = world.release
    return agree(reports, world.run, world.root, release, release.totals.records)


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
def test_reports_that_cover_the_release_agree_on_its_sizes(world: TrainingWorld, world_size: int) -> None:
    sizes = tuple(shard.records for shard in world.release.shards)
    assert judged(world, good_reports(world, world_size)) == Agreed(sizes=sizes)


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"root": OTHER}, ErrorCode.RUN_ROOT_DISAGREEMENT, "root"),
        ({"run_id": "run-2"}, ErrorCode.RUN_ROOT_DISAGREEMENT, "root"),
        ({"format": "f.v2"}, ErrorCode.RUN_ROOT_DISAGREEMENT, "format"),
        ({"settings": OTHER}, ErrorCode.RUN_ROOT_DISAGREEMENT, "settings"),
        ({"shards": ()}, ErrorCode.RUN_COVERAGE, "shards"),
    ],
)
def test_one_rank_that_differs_is_named(
    world: TrainingWorld, change: dict[str, object], code: ErrorCode, field: str
) -> None:
    reports = good_reports(world)
    reports[1] = replace(reports[1], **change)
    assert judged(world, reports) == Disagreed(code=code, field=field, ranks=(1,))


def test_a_shard_of_another_digest_is_not_covered(world: TrainingWorld) -> None:
    reports = good_reports(world)
    first, *rest = reports[1].shards
    reports[1] = replace(reports[1], shards=(replace(first, digest=OTHER), *rest))
    assert judged(world, reports) == Disagreed(code=ErrorCode.RUN_COVERAGE, field="shards", ranks=(1,))


def test_a_shard_of_another_ranks_duty_does_not_count(world: TrainingWorld) -> None:
    reports = good_reports(world)
    reports[0] = replace(reports[0], shards=reports[0].shards + reports[1].shards)
    reports[1] = replace(reports[1], shards=())
    assert judged(world, reports) == Disagreed(code=ErrorCode.RUN_COVERAGE, field="shards", ranks=(1,))


def test_counts_that_do_not_add_up_to_the_manifest_are_refused(world: TrainingWorld) -> None:
    reports = good_reports(world)
    first, *rest = reports[1].shards
    reports[1] = replace(reports[1], shards=(replace(first, samples=first.samples + 1), *rest))
    verdict = judged(world, reports)
    assert isinstance(verdict, Disagreed)
    assert (verdict.code, verdict.field) == (ErrorCode.RUN_COVERAGE, "samples")
