"""``check-proof``: what people and scripts get to see, and what it does without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.check_proof import main as plain_page
from shardrel.canonical import json
from shardrel.cli.main import main
from tests.support.command import Command, shardrel_in
from tests.support.proofs import root_of, slow_proof, sorted_rows

ROOT = Path(__file__).resolve().parents[3]
ROWS = sorted_rows([(f"id-\x1b[2J{n}", "file", "1", bytes([n]) * 32, "train") for n in range(5)])
PROOF = slow_proof(ROWS, ROWS[2][0])
DIGEST = root_of(PROOF.release)


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    (tmp_path / "proof.json").write_bytes(json.encode(PROOF))
    return shardrel_in(tmp_path, monkeypatch, capsys)


def test_a_script_gets_the_verdict_and_the_facts(shardrel: Command) -> None:
    answer = shardrel("check-proof", "proof.json", "--root", DIGEST)
    assert (answer["valid"], answer["present"], answer["count"], answer["sampleId"]) == (True, True, 1, ROWS[2][0])
    assert (answer["dataset"], answer["tombstoneWatermark"], answer["benchmarkFence"]) == ("data", 3, 2)
    assert shardrel("check-proof", "proof.json", "--root", DIGEST[7:], "--sample-id", ROWS[2][0])["valid"]


def test_what_prove_printed_stands_for_the_proof_that_it_names(shardrel: Command) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/printed.json").write_text(f'{{\n  "root": "x",\n  "proof": "{Path("proof.json").absolute()}"\n}}\n')
    assert shardrel("check-proof", "elsewhere/printed.json", "--root", DIGEST)["valid"]
    Path("proof.json").write_bytes(b"{}")
    assert shardrel.code("check-proof", "elsewhere/printed.json", "--root", DIGEST) == "format.not-a-record"
    Path("proof.json").unlink()
    assert shardrel.code("check-proof", "elsewhere/printed.json", "--root", DIGEST, status=2) == "input.no-such-file"
    os.mkfifo("proof.json")
    assert shardrel.code("check-proof", "elsewhere/printed.json", "--root", DIGEST, status=2) == "input.no-such-file"
    Path("odd.json").write_text('{"proof": "a\\u0000b"}')
    assert shardrel.code("check-proof", "odd.json", "--root", DIGEST, status=2) == "input.no-such-file"
    Path("nested.json").write_text("[" * 100_000)
    assert shardrel.code("check-proof", "nested.json", "--root", DIGEST) == "format.not-a-record"


def test_a_refused_proof_has_its_code(shardrel: Command) -> None:
    answer = shardrel("check-proof", "proof.json", "--root", "0" * 64, status=1)
    assert (answer["valid"], answer["error"]["code"]) == (False, "proof.wrong-root")
    assert shardrel.code("check-proof", "proof.json", "--root", DIGEST, "--sample-id", "x") == "proof.other-sample"
    Path("proof.json").write_bytes(json.encode(PROOF)[:-1])
    assert shardrel.code("check-proof", "proof.json", "--root", DIGEST) == "format.not-a-record"


@pytest.mark.parametrize(
    "line", [["none.json", "--root", DIGEST], [".", "--root", DIGEST], ["proof.json", "--root", "f521"]]
)
def test_a_wrong_call_is_none_of_the_proofs_fault(shardrel: Command, line: list[str]) -> None:
    assert shardrel("check-proof", *line, status=2)["error"]["code"] in {"input.no-such-file", "input.invalid"}


def test_people_read_sentences_that_do_nothing_to_their_terminal(
    shardrel: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-proof", "proof.json", "--root", DIGEST]) == 0
    shown = capsys.readouterr().out
    assert "exactly 1 member with the sample id" in shown
    assert "up to entry 3 of the tombstone log" in shown
    assert "\x1b[2J" not in shown
    assert main(["check-proof", "proof.json", "--root", "0" * 64]) == 1
    assert "proof.wrong-root" in capsys.readouterr().out


def test_neither_arrow_nor_a_store_nor_the_publishers_code_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_bytes(json.encode(PROOF))
    line = ["check-proof", str(tmp_path / "proof.json"), "--root", DIGEST, "--json"]
    program = f"import sys; from shardrel.cli.main import main; print(main({line!r})); print(*sys.modules, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines())
    assert "verifier.proof" in modules
    heavy = {"pyarrow", "numpy", "datafusion", "boto3", "cryptography", "shardrel.membership", "shardrel.store.port"}
    assert not modules & heavy


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ([], 2, "usage:"),
        (["proof.json"], 2, "usage:"),
        (["proof.json", DIGEST, "more"], 2, "usage:"),
        (["none.json", DIGEST], 2, "none.json"),
        ([".", DIGEST], 2, "can't be read"),
        (["a\0b", DIGEST], 2, "can't be read"),
        (["proof.json", DIGEST[7:]], 2, "64 lower-case"),
        (["proof.json", DIGEST[:20]], 2, "64 lower-case"),
        (["proof.json", f"sha256:{'0' * 64}"], 1, "another release"),
        (["proof.json", DIGEST], 0, "exactly 1 member"),
    ],
)
def test_the_page_of_plain_python_answers_every_call_in_words(
    shardrel: Command, capsys: pytest.CaptureFixture[str], line: list[str], status: int, told: str
) -> None:
    capsys.readouterr()
    left = plain_page(line)
    shown = capsys.readouterr()
    assert (1 if isinstance(left, str) else left) == status
    assert told in f"{shown.out}{shown.err}{left}"


def test_the_page_of_plain_python_leaves_with_a_status_and_no_traceback(shardrel: Command) -> None:
    page = [sys.executable, "-I", str(ROOT / "examples/check_proof.py")]
    done = subprocess.run([*page, "none.json", DIGEST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
