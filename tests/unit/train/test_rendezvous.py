"""torchrun knows our rendezvous backend, which tells an address at each start instead of sharing the agents' store."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.checkpoint.group import Group
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.train.group import connect
from tests.support.rank_processes import free_port
from tests.support.torchrun import ROOT, environment

SCRIPT = """
import os
print("shared:", os.environ["TORCHELASTIC_USE_AGENT_STORE"])
"""


@pytest.mark.distributed
def test_torchrun_finds_the_backend_by_its_name(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [
        "--nnodes=1:2",
        "--rdzv-backend=shardrel",
        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
        "--nproc-per-node=1",
    ]
    more = ["--rdzv-conf=last_call_timeout=1", "--local-addr=127.0.0.1", str(script)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, *more],
        cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["shared: False"], done.stderr


def test_a_store_that_an_agent_named_and_that_is_gone_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seat = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value in {**seat, "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunFailedError) as failed:
        _connect()
    assert (failed.value.code, failed.value.context["ranks"]) == (ErrorCode.RUN_TIMEOUT, ["0"])
    assert "--rdzv-backend=shardrel" in failed.value.message


def _connect() -> Group:
    with connect(timeout_s=1) as group:
        return group
