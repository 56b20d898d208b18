"""The drills on a real S3 server, through the command, in a bucket that others use too."""

from pathlib import Path

import pytest

from shardrel.drills.catalogue import DRILLS
from tests.support.command import Command, shardrel_in
from tests.support.shared_server import S3Server
from tests.support.stores import s3_store

SAMPLE = ["truncated-shard", "replaced-source-version", "lost-acknowledgement", "gate-rollback"]


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return shardrel_in(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_drill_is_answered_and_leaves_nothing(shardrel: Command, seaweed: S3Server, name: str) -> None:
    store = s3_store(seaweed.versioned, seaweed.endpoint_url)
    answer = shardrel("drill", name, "--store", store.url)
    assert [(drill["name"], drill["ok"]) for drill in answer["drills"]] == [(name, True)]
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
