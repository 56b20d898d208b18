"""The wheel carries the three packages and what they read, and works outside the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, where an installer would put it."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = out.glob("shardrel-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return out / "site"


def elsewhere(site: Path, folder: Path, *arguments: str) -> str:
    """Output of a Python that sees the wheel first and stands outside the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_wheel_has_the_packages_the_specification_and_the_codes(unpacked: Path) -> None:
    assert {"shardrel", "publisher", "verifier"} <= {path.name for path in unpacked.iterdir()}
    assert (unpacked / "shardrel" / "schemas" / "SPEC.md").read_text() == (ROOT / "schemas" / "SPEC.md").read_text()
    assert (unpacked / "shardrel" / "schemas" / "error-codes.json").exists()
    assert (unpacked / "shardrel" / "py.typed").exists()
    assert not (unpacked / "tests").exists()


def test_the_wheel_makes_a_gate_outside_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    program = "import shardrel, publisher.publish, verifier.verify; print(shardrel.__file__, publisher.__file__)"
    assert all(path.startswith(str(unpacked)) for path in elsewhere(unpacked, tmp_path, "-c", program).split())
    answer = json.loads(elsewhere(unpacked, tmp_path, "-m", "shardrel", "init", "--json"))
    assert answer["dataset"] == "default"
