"""The demo's narrator lets no step pass that went differently than told."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo.narrator import Narrator, NotAsTold, environment


@pytest.fixture
def tell(tmp_path: Path) -> Narrator:
    return Narrator(folder=tmp_path, quiet=True)


def test_another_exit_status_stops_the_story(tell: Narrator) -> None:
    with pytest.raises(NotAsTold):
        tell.shardrel("status")


def test_another_code_stops_the_story(tell: Narrator) -> None:
    with pytest.raises(NotAsTold):
        tell.refused("status", code="gate.unknown-root")


def test_what_is_printed_can_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell = Narrator(folder=tmp_path)
    gates = [teller.shardrel("init")["gateId"] for teller in (tell, tell.on("another"))]
    printed = [line.removeprefix("$ ") for line in capsys.readouterr().out.splitlines()]
    shell = [tell.setting(), f'shardrel() {{ {sys.executable} -m shardrel.cli --json "$@"; }}', *printed]
    done = subprocess.run(
        ["bash", "-ec", "\n".join(shell)], env=environment(), capture_output=True, text=True, check=True
    )
    assert re.findall(r'"gateId": "(\w+)"', done.stdout) == gates


def test_a_refusal_as_told_goes_on(tell: Narrator) -> None:
    assert tell.refused("status", code="gate.absent")["context"]["dataset"] == "default"
