"""The crash drill as it is called: the real data, real processes, a clean checkout that is named, and its bundle."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardrel.lab.installed import PACKAGES
from tests.support.fashion_mnist import fashion_mnist

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from shardrel.cli.main import run; run()"

pytestmark = [pytest.mark.slow, pytest.mark.distributed]


class Installed:
    """The program in a checkout of its own, where nobody edits it meanwhile."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        for name in PACKAGES:
            shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        (home / ".gitignore").write_text("__pycache__/\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "-m", "all")
        self.revision = self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(self.home), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def __call__(self, *words: str, status: int = 0) -> dict[str, Any]:
        line = [sys.executable, "-c", MAIN, *words, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(self.home)}
        done = subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == status, (done.stdout, done.stderr)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def drill(self, barrier: str, out: str, status: int = 0) -> dict[str, Any]:
        words = ["--barrier", barrier, "--out", out, "--data", str(fashion_mnist())]
        checkout = ["--repository", str(self.home), "--expected-revision", self.revision]
        return self("drill", "crash", *words, *checkout, status=status)


@pytest.fixture
def shardrel(tmp_path: Path) -> Installed:
    folder = tmp_path / "work"
    folder.mkdir()
    return Installed(tmp_path / "checkout", folder)


OUTCOMES = {
    "commit-after-file-fsync": {
        "installed": False,
        "selected": {"generation": 0, "step": 1, "hint": "current", "helped": False},
        "replayed": 1,
        "final": {"generation": 2, "step": 2, "worldSize": 3},
    },
    "commit-after-rename": {
        "installed": True,
        "selected": {"generation": 1, "step": 2, "hint": "stale", "helped": True},
        "replayed": 0,
        "final": {"generation": 3, "step": 3, "worldSize": 3},
    },
}


@pytest.mark.parametrize("barrier", OUTCOMES)
def test_a_drill_and_its_bundle(shardrel: Installed, barrier: str) -> None:
    answer = shardrel.drill(barrier, "out")
    assert {name: answer[name] for name in OUTCOMES[barrier]} == OUTCOMES[barrier]
    assert (answer["outcome"], answer["publisher"], answer["workerExits"]) == ("exact", -9, 19)
    assert (answer["evaluated"], answer["unacknowledged"]) == (10_000, answer["events"] - 1)

    verified = shardrel("verify-bundle", "out", "--html", "page.html")
    assert (verified["verdict"], verified["unproven"], verified["revision"]) == ("PASSED", [], shardrel.revision)
    assert (shardrel.folder / "page.html").read_text().count("<svg") == 3

    assert shardrel.drill(barrier, "out", status=2)["error"]["code"] == "input.invalid"
    changed_file = shardrel.home / "shardrel" / "digest.py"
    changed_file.write_text(changed_file.read_text() + "\n")
    assert shardrel.drill(barrier, "more", status=1)["error"]["code"] == "run.version-disagreement"
    assert not (shardrel.folder / "more").exists()
    changed = shardrel("verify-bundle", "out", status=1)
    assert changed["failures"] == [{"check": "package", "subject": "digest"}]
