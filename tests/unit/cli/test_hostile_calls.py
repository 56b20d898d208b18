"""Whatever a call is given, it ends with a code and its status, tells no traceback, and leaves nothing half done."""

import json
import os
import signal
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from shardrel.cli.main import main
from tests.support.hostile_calls import DEVICES, Call, calls, line_of, make_odd_files, parameters, verbs

CODES = {
    entry["code"]: set(entry["exitStatuses"])
    for entry in json.loads((Path(__file__).parents[3] / "schemas/error-codes.json").read_text())["codes"]
}
PATIENCE_S = 20.0
SAMPLE = 60
LONG_PARTS = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a release, a run and the odd files that the calls name."""
    folder = tmp_path_factory.mktemp("hostile")
    before = Path.cwd()
    os.chdir(folder)
    for name in ("SHARDREL_KEY", "SHARDREL_STORE", "SHARDREL_KEYS", "SHARDREL_DATASET", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)
    Path("texts.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "one"}) + "\n" for n in range(9)))
    make_odd_files(folder)
    yield folder
    os.chdir(before)


def answered(line: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    """Status and the one JSON object of a command line."""
    capfd.readouterr()
    with patience():
        status = main(line)
    shown = capfd.readouterr()
    assert "Traceback" not in shown.err
    return status, json.loads(shown.out)


@contextmanager
def patience() -> Iterator[None]:
    """No call may hang; one that is meant to go on until it is stopped is stopped soon."""

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def usual(place: Path) -> Mapping[tuple[str, ...], Mapping[str, list[str]]]:
    """Each verb as people call it."""
    import contextlib
    import io

    def answer(*line: str) -> dict[str, str]:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([*line, "--json"]) == 0
        return dict(json.loads(out.getvalue()))

    answer("init")
    snapshot = answer("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    root = answer("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"]
    answer("verify", root)
    answer("approve", root)
    answer("admit", root, "--alias", "prod")
    answer("run", "start", "--alias", "prod", "--run-id", "job")
    answer("prove", "t1", "--root", root, "--out", "proof.json")
    answer("log", "--export", "anchor")
    Path("entries.jsonl").write_text('{"sequence": 1, "sampleId": "nobody", "reason": "test"}\n')
    Path("policy.json").write_text(json.dumps(answer("policy", "show")["policy"]))
    Path("renames.json").write_text("{}")
    of_root, of_run = {"root": [root]}, {"run": ["job"]}
    return {
        ("init",): {"policy": ["policy.json"]},
        ("snapshot",): {"sources": ["texts.jsonl"], "id_column": ["id"], "text_column": ["text"]},
        ("digest",): {"sources": ["texts.jsonl"]},
        ("publish",): {"snapshot": [snapshot], "source": ["texts.jsonl"], "shards": ["2"]},
        ("verify",): of_root,
        ("approve",): of_root,
        ("admit",): {**of_root, "alias": ["prod"]},
        ("rollback",): {"alias": ["prod"], "to": [root]},
        ("fence",): {"kind": ["tombstones"], "file": ["entries.jsonl"]},
        ("affected",): {"tombstones": ["entries.jsonl"]},
        ("revoke",): {"root": [root], "reason": ["bad-labels"], "report": [root]},
        ("gc",): {"abandon": ["nobody"]},
        ("status",): {},
        ("log",): {"against": ["anchor"]},
        ("diff",): {"old": [root], "new": [root], "to_file": ["differences.jsonl"]},
        ("report",): of_root,
        ("pull",): {**of_root, "to": ["pulled"]},
        ("prove",): {"sample_id": ["t1"], "root": [root], "out": ["proof2.json"]},
        ("check-proof",): {"file": ["proof.json"], "root": [root]},
        ("serve",): {"host": ["no.such.host.invalid"]},
        ("probe",): {"store": ["s3://no"]},
        ("drill",): {"name": ["no-such-drill"]},
        ("verify-bundle",): {"bundle": ["folder"]},
        ("run", "start"): {"alias": ["prod"]},
        ("run", "show"): of_run,
        ("run", "renew"): of_run,
        ("run", "finish"): {"run": ["nobody"]},
        ("run", "cancel"): {"run": ["nobody"]},
        ("checkpoint", "list"): of_run,
        ("checkpoint", "show"): of_run,
        ("checkpoint", "preflight"): of_run,
        ("checkpoint", "export"): {**of_run, "to": ["exported"]},
        ("checkpoint", "import"): {**of_run, "source": ["garbage"]},
        ("keys", "make"): {"names": ["publisher"]},
        ("keys", "show"): {},
        ("keys", "rotate"): {"name": ["nobody"]},
        ("keys", "sign"): {"draft": ["garbage"]},
        ("keys", "make-encryption"): {"name": ["kek"]},
        ("policy", "show"): {},
        ("policy", "set"): {"file": ["policy.json"]},
    }


def files() -> set[str]:
    """What lies beside the store and the keys."""
    return {path.as_posix() for path in Path().rglob("*") if not path.as_posix().startswith(".shardrel/")}


def check(call: Call, capfd: pytest.CaptureFixture[str]) -> str | None:
    """What is wrong with how a call ends; None where nothing is."""
    before, devices = files(), {name: Path(name).stat().st_rdev for name in DEVICES}
    status, answer = answered(call.line, capfd)
    error = answer.get("error")
    code = error["code"] if isinstance(error, dict) else None
    new = sorted(files() - before)
    for name in new:
        path = Path(name)
        if path.is_file() or path.is_symlink():
            path.unlink()
    if any(Path(name).stat().st_rdev != number for name, number in devices.items()):
        return "a device was replaced"
    if status not in (0, 1, 2, 3):
        return f"status {status}: {error}"
    if status in (2, 3) and (code is None or status not in CODES[str(code)]):
        return f"status {status} with {code}"
    if status and [name for name in new if not Path(name).is_dir()]:
        return f"status {status} ({code}) and left {new}"
    if status == 3 and "full-device" not in call.value and call.parameter != "--endpoint-url":
        return f"status 3 for what the caller gave: {error}"
    if status == 0 and not call.value:
        return "an empty value was taken"
    return None


def test_every_verb_is_in_the_table(usual: Mapping[tuple[str, ...], object]) -> None:
    assert set(usual) == {verb for verb, _ in verbs()}


def wrong(chosen: Iterable[Call], capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Calls that end badly, each with how."""
    return [f"{call.title}: {found}" for call in chosen if (found := check(call, capfd)) is not None]


def some_of(found: Iterator[Call], parts: int, part: int = 0) -> Iterator[Call]:
    """One of so many parts of the calls, the same each time."""
    return (call for call in found if zlib.crc32(call.title.encode("utf-8", "surrogateescape")) % parts == part)


def test_a_sample_of_hostile_calls_ends_well(
    usual: Mapping[tuple[str, ...], Mapping[str, list[str]]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert wrong(some_of(calls(usual), SAMPLE), capfd) == []


READING = [
    ("status",), ("log",), ("report",), ("diff",), ("digest",), ("prove",), ("check-proof",), ("affected",),
    ("run", "show"), ("checkpoint", "list"), ("keys", "show"), ("policy", "show"),
]  # fmt: skip


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("as_json", [True, False], ids=["for scripts", "for people"])
@pytest.mark.parametrize("where", ["full disk", "closed pipe"])
def test_an_answer_that_nobody_takes_is_no_traceback(
    usual: Mapping[tuple[str, ...], Mapping[str, list[str]]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    as_json: bool,
) -> None:
    functions = dict(verbs())
    for verb in READING:
        line = line_of(verb, usual[verb], parameters(functions[verb]))
        stdout = os.fdopen(os.open("full-device", os.O_WRONLY) if where == "full disk" else closed_pipe(), "w")
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            status = main(line if as_json else [word for word in line if word != "--json"])
        stdout.close()
        told = capfd.readouterr().err
        assert (verb, status, "Traceback" in told, bool(told)) == (verb, 3, False, where == "full disk")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(LONG_PARTS))
def test_every_hostile_call_ends_well(
    usual: Mapping[tuple[str, ...], Mapping[str, list[str]]], capfd: pytest.CaptureFixture[str], part: int
) -> None:
    found = wrong(some_of(calls(usual), LONG_PARTS, part), capfd)
    assert found == []
