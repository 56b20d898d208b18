"""``shardrel run show`` of a run whose permit a fence closed: why, and what a renewal would be answered."""

from pathlib import Path

import pytest

from shardrel.cli.main import main
from shardrel.gate import fence
from shardrel.gate.attestations import attach
from shardrel.gate.view import read_gate
from shardrel.records.report import REPORT_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.local import LocalStore
from shardrel.trust import keyring
from shardrel.trust.envelope import seal
from shardrel.trust.statement import statement
from tests.support.command import Command
from tests.support.gates import a_report
from tests.support.runs import a_deletion
from tests.support.training import TrainingWorld, training_world


@pytest.fixture
def world(tmp_path: Path) -> TrainingWorld:
    return training_world(LocalStore(str(tmp_path / "store")), tmp_path, records=10, shards=1)


def checked(world: TrainingWorld, hits: int) -> None:
    report = a_report(read_gate(world.store, world.dataset).body, world.root, hits=hits)
    said = statement(world.root, REPORT_PREDICATE, report, "root")
    attach(world.store, world.root, seal(said, STATEMENT_PAYLOAD, [world.keys["verifier"]]))


@pytest.mark.parametrize(
    ("hits", "code", "command"),
    [
        (None, "permit.recheck-needed", "verify"),
        (0, None, "run renew"),
        (1, "permit.root-has-hit", "run cancel"),
    ],
)
def test_it_says_what_to_do(
    world: TrainingWorld,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    hits: int | None,
    code: str | None,
    command: str,
) -> None:
    words = ["run", "show", world.run, "--store", str(tmp_path / "store"), "--dataset", world.dataset]
    shardrel = Command(capsys)
    assert shardrel(*words)["renewal"] is None
    fence.advance(world.store, world.dataset, "tombstones", [a_deletion(1)], world.call())
    if hits is not None:
        checked(world, hits)
    shown = shardrel(*words)
    assert (shown["state"], shown["closed"]["by"], shown["root"]) == ("closed", "tombstones", world.root)
    assert (shown["renewal"] or {}).get("code") == code
    assert main(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"shardrel {command}" in text
    assert text.startswith(f"Run {world.run} is open, without a permit")


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (["renew", "nobodys"], "gate.no-such-run", "nobodys"),
        (["finish", "nobodys"], "gate.no-such-run", "nobodys"),
        (["show", "nobodys"], "gate.no-such-run", "nobodys"),
        (["start", "--alias", "nowhere"], "gate.no-such-alias", "nowhere"),
    ],
)
def test_a_run_or_an_alias_that_is_not_there_is_named(
    world: TrainingWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: str, name: str
) -> None:
    keyring.save(tmp_path / "keys", world.signer)
    where = ["--store", str(tmp_path / "store"), "--dataset", world.dataset, "--keys", str(tmp_path / "keys")]
    error = Command(capsys)("run", *words, *where, status=1)["error"]
    assert error["code"] == code
    assert name in error["message"]
