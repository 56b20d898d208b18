"""What the verbs say of commit records that somebody changed: they are held against what the gate admitted."""

import json
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from shardrel.checkpoint.sharded import alone
from shardrel.gate import runs
from shardrel.store.local import LocalStore
from shardrel.trust import keyring
from tests.support.checkpoints import ROOT, RUN, save_on
from tests.support.command import Command, shardrel_in
from tests.support.gates import DATASET, call, key
from tests.support.ranks import all_good
from tests.support.runs import started_run

STORE = ("--store", "store", "--dataset", DATASET)
COMMITS = Path("store/runs") / RUN / "commits"


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in a folder with a store with a run with three checkpoints."""
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    store = LocalStore(tmp_path / "store")
    started_run(store, ROOT, RUN)
    for step in (2, 4, 6):
        all_good(save_on(store, step))
    return command


def states(shardrel: Command) -> list[tuple[int, int | None, str]]:
    rows = shardrel("checkpoint", "list", RUN, *STORE)["checkpoints"]
    return [(row["generation"], row["step"], row["state"]) for row in rows]


def test_all_admitted_checkpoints_are_listed_and_pass(shardrel: Command) -> None:
    assert states(shardrel) == [(0, 2, "ADMITTED"), (1, 4, "ADMITTED"), (2, 6, "ADMITTED")]
    assert shardrel("checkpoint", "preflight", RUN, *STORE)["verdict"] == "PASSED"
    assert shardrel("checkpoint", "show", RUN, *STORE, "--generation", "1")["step"] == 4


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_record_hides_no_other_checkpoint(shardrel: Command, lost: int) -> None:
    (COMMITS / str(lost)).unlink()
    assert [state for _, _, state in states(shardrel)] == ["LOST" if n == lost else "ADMITTED" for n in range(3)]
    line = ("checkpoint", "preflight", RUN, *STORE, "--generation", str(lost))
    assert [failure["code"] for failure in shardrel(*line, status=1)["failures"]] == ["checkpoint.missing-payload"]


def test_the_record_of_another_generation_does_not_pass_for_the_admitted_one(shardrel: Command) -> None:
    (COMMITS / "2").write_bytes((COMMITS / "1").read_bytes())
    assert states(shardrel)[2] == (2, 6, "DAMAGED")
    failed = shardrel("checkpoint", "preflight", RUN, *STORE, status=1)
    assert (failed["generation"], failed["verdict"]) == (2, "FAILED")
    assert shardrel.code("checkpoint", "show", RUN, *STORE) == "checkpoint.bytes"


def test_an_edited_record_is_not_the_admitted_one(shardrel: Command) -> None:
    record = json.loads((COMMITS / "2").read_text())
    record["worldSize"] = 7
    (COMMITS / "2").write_text(json.dumps(record, separators=(",", ":"), sort_keys=True))
    assert states(shardrel)[2] == (2, 6, "DAMAGED")
    assert shardrel("checkpoint", "preflight", RUN, *STORE, status=1)["failures"][0]["code"] == "checkpoint.bytes"


@pytest.mark.parametrize("content", [b"no record", None])
def test_what_somebody_put_under_the_next_name_hides_nothing(shardrel: Command, content: bytes | None) -> None:
    (COMMITS / "3").write_bytes((COMMITS / "2").read_bytes() if content is None else content)
    assert states(shardrel)[2:] == [(2, 6, "ADMITTED"), (3, None, "DAMAGED")]
    assert shardrel("checkpoint", "preflight", RUN, *STORE)["generation"] == 2


def test_export_writes_a_file_that_import_commits(shardrel: Command, tmp_path: Path) -> None:
    done = shardrel("checkpoint", "export", RUN, *STORE, "--to", "out", "--generation", "1")
    assert (done["generation"], done["format"]) == (1, "safetensors")
    assert Path(done["path"]).is_file()
    assert shardrel.code("checkpoint", "export", RUN, *STORE, "--to", "out", status=2) == "input.invalid"
    keyring.save(tmp_path / "keys", key("admin"))
    source = (*STORE, "--from", done["path"], "--keys", "keys")
    assert shardrel.code("checkpoint", "import", RUN, *source) == "gate.checkpoint-order"
    runs.start(LocalStore(tmp_path / "store"), DATASET, "prod", call(), run_id="fresh")
    assert shardrel("checkpoint", "import", "fresh", *source)["generation"] == 0
    assert shardrel("checkpoint", "preflight", "fresh", *STORE)["verdict"] == "PASSED"


def test_import_takes_what_dcp_saved_and_names_what_is_no_data(shardrel: Command, tmp_path: Path) -> None:
    values = {"w": torch.ones(3), "seen": {1, 2}}
    alone(lambda: dcp_save(values, checkpoint_id=tmp_path / "dcp", no_dist=True))
    keyring.save(tmp_path / "keys", key("admin"))
    runs.start(LocalStore(tmp_path / "store"), DATASET, "prod", call(), run_id="fresh")
    verb = ("checkpoint", "import", "fresh", *STORE, "--from", "dcp", "--keys", "keys")
    assert shardrel.code(*verb, status=2) == "input.pickle-not-data"
    done = shardrel(*verb, "--as", "model", "--leave-out", "seen")
    assert (done["generation"], done["format"], done["leftOut"]) == (0, "dcp", ["seen"])
    assert shardrel("checkpoint", "show", "fresh", *STORE)["state"] == ["model"]
    (tmp_path / "none").mkdir()
    assert (
        shardrel.code("checkpoint", "import", "fresh", *STORE, "--from", "none", "--keys", "keys", status=2)
        == "input.invalid"
    )


def test_show_counts_what_the_manifest_lists(shardrel: Command) -> None:
    shown = shardrel("checkpoint", "show", RUN, *STORE)
    assert (shown["tensors"], shown["state"]) == (8, ["model", "optimizer", "scheduler"])
    assert shown["status"] == "ADMITTED"
    assert shown["bytes"] > 700 * 401 * 4
    assert 1 < shown["objects"] <= shown["regions"]
    assert (shown["copies"], shown["owners"]) == (0, {})
