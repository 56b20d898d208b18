"""Aliases with weights on the command line."""

from pathlib import Path

import pytest

from shardrel.cli.main import main
from shardrel.cli.mix import mix_of
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.gate import runs
from shardrel.gate.admit import admit
from shardrel.gate.fence import advance
from shardrel.records.fence import TombstoneEntry
from shardrel.store.local import LocalStore
from tests.support import gates

ENTRY = TombstoneEntry(sequence=1, sample_id="s", source_id=None, source_version=None, content_digest=None, reason=None)


def test_one_alias_without_a_weight_is_no_mix() -> None:
    assert mix_of(["prod"]) == ("prod", None)


def test_weights_are_exact_millionths() -> None:
    first, inputs = mix_of(["A=0.7", "B=0.3", "C=0.000001", "D=1"])
    assert (first, inputs and [(one.alias, one.weight) for one in inputs]) == (
        "A",
        [("A", 700_000), ("B", 300_000), ("C", 1), ("D", 1_000_000)],
    )


@pytest.mark.parametrize(
    "aliases",
    [
        ["A", "B"],
        ["A=0.5", "B"],
        ["A=0"],
        ["A=1.1"],
        ["A=0.0000001"],
        ["A=x"],
        ["A=nan"],
        ["A=inf"],
        ["A=0.5", "A=0.5"],
    ],
)
def test_other_weights_are_refused(aliases: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        mix_of(aliases)
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_people_read_all_aliases_of_a_mix_and_which_root_holds_back_a_renewal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = LocalStore(tmp_path / "store")
    gates.new_gate(store)
    web, code = gates.a_root("web"), gates.a_root("code")
    for alias, root in (("web", web), ("code", code)):
        gates.stage(store, root)
        gates.attest(store, root)
        admit(store, gates.DATASET, root, alias, gates.call())
    first, inputs = mix_of(["web=0.7", "code=0.3"])
    runs.start(store, gates.DATASET, first, gates.call(), run_id="run-1", inputs=inputs)
    advance(store, gates.DATASET, "tombstones", [ENTRY], gates.call())
    gates.attest(store, web)
    where = ("--store", str(tmp_path / "store"), "--dataset", gates.DATASET)
    assert main(["run", "show", "run-1", *where]) == 0
    assert f"shardrel verify {code[7:19]} --fences-only" in " ".join(capsys.readouterr().out.split())
    assert main(["log", *where]) == 0
    assert "run-1 on web, code" in capsys.readouterr().out
