"""The demo's narrator lets no step pass that went differently than told."""

from pathlib import Path

import pytest

from examples.demo.narrator import Narrator, NotAsTold


@pytest.fixture
def tell(tmp_path: Path) -> Narrator:
    return Narrator(folder=tmp_path, quiet=True)


def test_another_exit_status_stops_the_story(tell: Narrator) -> None:
    with pytest.raises(NotAsTold):
        tell.shardrel("status")


def test_another_code_stops_the_story(tell: Narrator) -> None:
    with pytest.raises(NotAsTold):
        tell.refused("status", code="gate.unknown-root")


def test_a_refusal_as_told_goes_on(tell: Narrator) -> None:
    assert tell.refused("status", code="gate.absent")["context"]["dataset"] == "default"
