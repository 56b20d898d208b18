"""The command line, run in the test's own process and folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardrel.cli.main import main


class Command:
    """Runs ``shardrel … --json`` and gives what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *line: str, status: int = 0) -> dict[str, Any]:
        """Run a command line that has to end with this exit status."""
        self._capsys.readouterr()
        code = main([*line, "--json"])
        shown = self._capsys.readouterr()
        assert code == status, shown
        answer: dict[str, Any] = json.loads(shown.out)
        return answer

    def code(self, *line: str, status: int = 1) -> str:
        """Error code of a command line that has to fail."""
        return str(self(*line, status=status)["error"]["code"])


def shardrel_in(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, with ``folder`` as its current one."""
    monkeypatch.chdir(folder)
    return Command(capsys)


def shardrel_with_texts(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in a folder with ``texts.jsonl``, nine records, and a gate."""
    made = shardrel_in(folder, monkeypatch, capsys)
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    made("init")
    return made
