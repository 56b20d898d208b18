"""A publish that is killed at any store operation goes on where it was, and writes nothing twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from publisher.options import PublishOptions
from shardrel.gate.view import read_gate
from shardrel.store.layout import attestation_prefix
from shardrel.store.local import LocalStore
from tests.support.publishing import Publishing, records_table, write_source

DRIVER = Path(__file__).parents[1] / "support" / "publish_driver.py"
OPTIONS = PublishOptions(shards=4, workers=2)

# Of 14 writes: the pin's intent, envelope and swap (3), shards and a part of the index (8), the index (9), the
# root (10), provenance (11), and intent, envelope and swap of the end (14).
WRITES = 14
POINTS = [("after", 3), ("before", 5), ("after", 6), ("after", 9), ("before", 11), ("after", 11), ("after", 14)]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Publishing, str, Path, str]:
    folder = tmp_path_factory.mktemp("publish")
    publishing = Publishing(store=LocalStore(folder / "store"))
    publishing.init()
    source = write_source(folder / "a.arrow", records_table(200))
    snapshot = publishing.snapshot(source)
    (folder / "key.pem").write_bytes(publishing.keys["publisher"].to_pem())
    shutil.copytree(folder / "store", folder / "undisturbed")
    undisturbed = Publishing(store=LocalStore(folder / "undisturbed"), keys=publishing.keys)
    return folder, publishing, snapshot, source, undisturbed.publish(snapshot, source, options=OPTIONS).root


def objects(store: Path) -> dict[Path, tuple[int, int]]:
    """Inode and time of the last change of every object."""
    files = [path for path in (store / "objects").rglob("*") if path.is_file()]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


OTHERS = [(when, k) for k in range(1, WRITES + 1) for when in ("before", "after") if (when, k) not in POINTS]


@pytest.mark.parametrize(("when", "k"), [*POINTS, *(pytest.param(*point, marks=pytest.mark.slow) for point in OTHERS)])
def test_a_killed_publish_goes_on(
    ready: tuple[Path, Publishing, str, Path, str], tmp_path: Path, when: str, k: int
) -> None:
    folder, publishing, snapshot, source, root = ready
    store = tmp_path / "store"
    shutil.copytree(folder / "store", store)
    command = [sys.executable, str(DRIVER), str(store), str(folder / "key.pem"), snapshot, str(source), when, str(k)]
    environment = {**os.environ, "PYTHONPATH": str(DRIVER.parents[2])}
    killed = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
    assert killed.returncode == -9, killed.stderr.decode()
    left = objects(store)
    again = Publishing(store=LocalStore(store), keys=publishing.keys)
    result = again.publish(snapshot, source, options=OPTIONS)
    assert result.root == root
    after = objects(store)
    assert {path: after[path] for path in left} == left
    body = read_gate(again.store, again.dataset).body
    assert (body.candidates[root].state, body.publications) == ("STAGED", {})
    assert len(list(again.store.list(attestation_prefix(root)))) == 1


def test_there_are_no_other_writes(ready: tuple[Path, Publishing, str, Path, str], tmp_path: Path) -> None:
    folder, _, snapshot, source, root = ready
    store = tmp_path / "store"
    shutil.copytree(folder / "store", store)
    command = [sys.executable, str(DRIVER), str(store), str(folder / "key.pem"), snapshot, str(source), "before"]
    environment = {**os.environ, "PYTHONPATH": str(DRIVER.parents[2])}
    through = subprocess.run(
        [*command, str(WRITES + 1)], env=environment, capture_output=True, check=False, timeout=120
    )
    assert (through.returncode, through.stdout.decode().strip()) == (0, root), through.stderr.decode()
