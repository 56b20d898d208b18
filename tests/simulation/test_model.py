"""The Promela model of the gate: spin finds nothing wrong with it, and something wrong with each wrong one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parents[2] / "schemas" / "model"
SAFETY = ("-DSAFETY", "-DNOCLAIM")
WRONG = {
    "BLIND": "generation==2",
    "OPEN_FENCE": "permit_fence==fence",
    "NO_LOOK": "effects[me]<=1",
    "STALE_REPORT": "r>=fence",
    "ANY_PERMIT": "permit_open&&",
    "EARLY_FENCE": "permit_fence==fence",
}
LOSING = ("NO_LOOK", "OLD_LOOK", "ANY_STATE", "OPEN_DOOR")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spin() -> str:
    """The model checker, from Debian where it is not there yet."""
    if shutil.which("spin") is None:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "spin"], check=True, capture_output=True)
    return shutil.which("spin") or "spin"


def check(
    spin: str,
    folder: Path,
    *defines: str,
    model: str = "gate.pml",
    flags: tuple[str, ...] = SAFETY,
    search: tuple[str, ...] = (),
) -> str:
    """Search the whole model; what pan says."""
    steps = [
        [spin, *defines, "-a", str(MODELS / model)],
        ["gcc", "-O2", "-w", "-DCOLLAPSE", *flags, "-o", "pan", "pan.c"],
        ["./pan", "-m1000000", *search],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states(said: str) -> int:
    found = re.search(r"(\d+) states, stored", said)
    assert found is not None, said
    return int(found[1])


@pytest.mark.parametrize("defines", [(), ("-DFAULTS=4", "-DFENCE_END=2")], ids=["small", "large"])
def test_nothing_is_wrong_in_any_interleaving(
    spin: str, tmp_path: Path, defines: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = check(spin, tmp_path, *defines)
    with capsys.disabled():
        print(f"\n  model of the gate: {states(said)} states")
    assert "errors: 0" in said
    assert states(said) > 10_000


def test_everybody_ends_where_scheduling_is_fair(spin: str, tmp_path: Path) -> None:
    said = check(spin, tmp_path, "-DFAULTS=1", flags=("-DNFAIR=3",), search=("-a", "-f", "-N", "everybody_ends"))
    assert "errors: 0" in said


@pytest.mark.parametrize(("model", "processes"), [("gate.pml", 5), ("retention.pml", 3)])
def test_every_statement_of_the_model_is_reached(spin: str, tmp_path: Path, model: str, processes: int) -> None:
    said = check(spin, tmp_path, model=model)
    unreached = re.findall(r"unreached in (?:proctype (\w+)|init)\n\t\((\d+) of", said)
    assert len(unreached) == processes
    assert all(count == "0" for _, count in unreached)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_protocol_is_found(spin: str, tmp_path: Path, wrong: str) -> None:
    said = check(spin, tmp_path, f"-D{wrong}")
    assert "errors: 1" in said
    assert WRONG[wrong] in next(line for line in said.splitlines() if line.startswith("pan:1:"))


@pytest.mark.parametrize("defines", [(), ("-DFAULTS=4", "-DCOLLECTIONS=4")], ids=["small", "large"])
def test_nothing_is_lost_in_any_interleaving(
    spin: str, tmp_path: Path, defines: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = check(spin, tmp_path, *defines, model="retention.pml")
    with capsys.disabled():
        print(f"\n  model of retention: {states(said)} states")
    assert "errors: 0" in said
    assert states(said) > 10_000


@pytest.mark.parametrize("wrong", LOSING)
def test_a_wrong_way_to_collect_is_found(spin: str, tmp_path: Path, wrong: str) -> None:
    said = check(spin, tmp_path, f"-D{wrong}", model="retention.pml")
    assert "errors: 1" in said
    assert "present" in next(line for line in said.splitlines() if line.startswith("pan:1:"))
