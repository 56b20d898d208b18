"""The README's torch script, as it is printed, on a release that was made by its commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.gate.view import read_gate
from shardrel.store.open import open_store
from tests.support.command import Command, shardrel_in

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["one text", "and another", "and the third of them"] * 12

# What the script's reader has already.
MODEL = """
import torch
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

def loss_of(model, table):
    return model(torch.tensor([[float(len(text))] for text in table["text"].to_pylist()])).square().mean()
"""


def printed() -> str:
    """The block that imports the training functions."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    [block] = [block for block in blocks if "shardrel.train.session" in block]
    return str(block)


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A run of the README's name on an admitted release, in the folders that commands take by default."""
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    lines = [json.dumps({"path": str(number), "text": text}) for number, text in enumerate(WORDS)]
    Path("corpus.jsonl").write_text("\n".join(lines) + "\n")
    command("init")
    snapshot = command("snapshot", "corpus.jsonl", "--id-column", "path")["snapshot"]
    root = command("publish", snapshot, "--source", "corpus.jsonl", "--shards", "2")["root"]
    command("verify", root)
    command("approve", root)
    command("admit", root, "--alias", "prod")
    command("run", "start", "--alias", "prod", "--run-id", "second")
    Path("train.py").write_text(MODEL + printed())
    return command


def run() -> subprocess.CompletedProcess[str]:
    """The script as a job of one rank."""
    setting = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "train.py"]
    return subprocess.run(command, env=setting, capture_output=True, text=True, check=False, timeout=120)


def test_the_script_ends_and_its_run_can_be_finished(shardrel: Command) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    head = read_gate(open_store(".shardrel/store"), "default").body.runs["second"].head
    assert head is not None
    assert (head.step, head.generation) == (300, 2)
    assert shardrel("run", "finish", "second")["state"] == "finished"

    # A refusal is two lines, and the status that the code has everywhere else.
    refused = run()
    assert refused.returncode == 1
    assert "gate.run-ended" in refused.stderr
    assert "second" in refused.stderr
    assert "Traceback" not in refused.stderr
