"""The README's story, step by step, on the command line: on the embedded store, and on real S3 servers."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import Command, shardrel_in

if TYPE_CHECKING:
    from tests.support.shared_server import S3Server

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [f"text number {number}" for number in range(60)]


@pytest.fixture(params=["embedded", "seaweed", "ministack", pytest.param("ceph", marks=pytest.mark.slow)])
def shardrel(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    lines = [json.dumps({"id": f"t{number}", "text": text}) for number, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    if request.param != "embedded":
        server: S3Server = request.getfixturevalue(request.param)
        # Ceph's buckets with versions ignore conditions, and are refused.
        bucket = server.plain if request.param == "ceph" else server.versioned
        monkeypatch.setenv("SHARDREL_STORE", f"s3://{bucket}/walk-{uuid.uuid4().hex[:12]}")
    return command


def released(shardrel: Command, *more: str) -> dict[str, Any]:
    """Snapshot, publish, verify and approve."""
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id", *more)["snapshot"]
    published = shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "3")
    assert shardrel("verify", published["root"])["verdict"] == "PASSED"
    assert shardrel("approve", published["root"], "--key", "approver")["approvals"] == 1
    return published


def presence(shardrel: Command, root: str, sample_id: str) -> tuple[bool, int]:
    """Prove, and check what was proved without the store."""
    proved = shardrel("prove", sample_id, "--root", root[7:23])
    line = ("check-proof", proved["proof"], "--root", root, "--sample-id", sample_id, "--store", "nowhere")
    checked = shardrel(*line)
    assert checked["valid"]
    assert Path(proved["proof"]).is_absolute()
    assert (checked["present"], checked["count"]) == (proved["present"], proved["count"])
    return proved["present"], proved["count"]


def test_one_release_from_a_file_to_a_run_and_a_deletion(shardrel: Command) -> None:
    # 1. A gate, its policy, and keys for local use. Twice is harmless.
    gate = shardrel("init")
    assert shardrel("init") == gate

    # 2. Declare what is in the dataset, write it as shards, have it verified by the other program.
    published = released(shardrel)
    root = published["root"]
    assert (published["state"], published["shards"], published["records"]) == ("STAGED", 3, len(TEXTS))

    # 3. Only now may an alias point to it, and only from where the caller believes it to be.
    assert shardrel.code("admit", root, "--alias", "prod", "--expect-generation", "7") == "gate.generation-moved"
    admitted = shardrel("admit", root, "--alias", "prod", "--expect-generation", "0")
    assert (admitted["root"], admitted["generation"]) == (root, 1)

    # 4. A run is pinned to the root for its whole life.
    run = shardrel("run", "start", "--alias", "prod", "--run-id", "first")
    assert (run["runId"], run["root"], run["generation"]) == ("first", root, 1)

    # Whoever has the root's digest can check who is in the release, with nothing else.
    assert presence(shardrel, root, "t7") == (True, 1)
    nowhere = ("--out", "no-such-folder/proof.json")
    assert shardrel.code("prove", "t7", "--root", root, *nowhere, status=2) == "input.invalid"

    # 5. One text has to go. The fence closes the run's permit and the release is not eligible any more.
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "t7", "reason": "owner.request"}\n')
    fenced = shardrel("fence", "tombstones", "tombstones.jsonl")
    assert fenced["watermark"] == 1
    assert run["permit"] in fenced["closedPermits"]
    assert shardrel.code("run", "renew", "first") == "permit.recheck-needed"
    recheck = shardrel("verify", root, "--fences-only", status=1)
    assert recheck["counts"]["tombstoneHits"] == 1
    assert shardrel.code("run", "start", "--alias", "prod") in {"permit.root-has-hit", "gate.root-invalid"}

    # 6. The release without it takes the alias to the next generation.
    again = released(shardrel, "--apply-tombstones")
    assert again["records"] == len(TEXTS) - 1
    assert shardrel("admit", again["root"], "--alias", "prod")["generation"] == 2
    assert shardrel("run", "start", "--alias", "prod", "--run-id", "second")["root"] == again["root"]

    assert presence(shardrel, again["root"], "t7") == (False, 0)
    assert presence(shardrel, root, "t7") == (True, 1)

    # 7. The gate remembers all of it, and the old root does not come back.
    state = shardrel("status")
    assert state["aliases"] == {"prod": {"root": again["root"], "generation": 2}}
    assert state["tombstoneWatermark"] == 1
    assert shardrel("log")["transitions"][-1]["kind"] == "start-run"
    assert shardrel("rollback", "--alias", "prod", "--to", root, status=1)["error"]["code"]

    # 8. Whoever asks gets the exact bytes.
    pulled = shardrel("pull", again["root"], "--to", "here")
    assert pulled["shards"] == 3
    assert sorted(path.name for path in Path("here").glob("*.parquet"))[0].startswith("shard-")


def test_the_command_is_a_process_like_any_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shardrel.cli", "--json", "status"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "gate.absent"
    assert done.stderr == ""
