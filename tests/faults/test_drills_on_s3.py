"""The drills on a real S3 server, in buckets that others use too."""

from pathlib import Path

import pytest

from shardrel.drills.catalogue import DRILLS
from shardrel.drills.cleanup import take_away
from shardrel.store.objects import put
from tests.support.command import Command, shardrel_in
from tests.support.drills import a_scratch, outcome_of
from tests.support.shared_server import S3Server
from tests.support.stores import s3_store

SAMPLE = ["replaced-source-version", "endless-data", "stale-listing", "aba", "gate-rollback", "late-acknowledgement"]


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", SAMPLE)
def test_the_fault_is_answered(seaweed: S3Server, tmp_path: Path, name: str) -> None:
    store = s3_store(seaweed.plain, seaweed.endpoint_url)
    outcome = outcome_of(name, a_scratch(tmp_path, store))
    assert (outcome.observed, outcome.ok) == (outcome.drill.expected, True)


def test_all_versions_of_a_scratch_store_are_taken_away_and_nothing_else(seaweed: S3Server, tmp_path: Path) -> None:
    neighbour = s3_store(seaweed.versioned, seaweed.endpoint_url)
    put(neighbour, b"of somebody else", "text/plain")
    store = s3_store(seaweed.versioned, seaweed.endpoint_url)
    assert outcome_of("lost-acknowledgement", a_scratch(tmp_path, store)).ok
    assert take_away(store, [])
    assert (list(store.list("")), len(list(neighbour.list("")))) == ([], 1)


def test_the_command_leaves_nothing_behind(shardrel: Command, seaweed: S3Server) -> None:
    store = s3_store(seaweed.versioned, seaweed.endpoint_url)
    answer = shardrel("drill", "truncated-shard", "--store", store.url)
    assert [(drill["name"], drill["ok"]) for drill in answer["drills"]] == [("truncated-shard", True)]
    assert answer["scratch"] is None
    assert not list(store.list(""))


@pytest.mark.slow
@pytest.mark.parametrize("versioned", [False, True])
def test_all_drills_are_answered(shardrel: Command, seaweed: S3Server, versioned: bool) -> None:
    store = s3_store(seaweed.versioned if versioned else seaweed.plain, seaweed.endpoint_url)
    answer = shardrel("drill", "all", "--store", store.url)
    assert [drill["name"] for drill in answer["drills"] if not drill["ok"]] == []
    assert len(answer["drills"]) == len(DRILLS)
    assert not list(store.list(""))
