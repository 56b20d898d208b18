"""Every committed bad release is found to be bad in exactly the way that it is named after."""

import ast
import json
import re
from pathlib import Path

import pytest

from fixtures.releases import key
from shardrel.errors import ErrorCode
from shardrel.gate.view import read_gate
from shardrel.records.report import Report
from shardrel.store.local import LocalStore
from tests.support.command import shardrel_in
from tests.support.fixture_releases import FOLDER, BadRelease, names, sound, unpacked
from tests.support.publishing import NOW
from verifier.verify import World, verify_release

VERIFIER = Path(__file__).parents[2] / "verifier"


def verified(release: BadRelease) -> Report:
    """The report of the real verifier on the real local store."""
    store = LocalStore(release.store)
    world = World(signer=key("verifier"), now=lambda: NOW, progress=lambda done, total: None)
    return verify_release(store, release.root, read_gate(store, release.dataset), world=world).report


def test_the_release_that_they_are_made_of_is_sound(tmp_path: Path) -> None:
    report = verified(sound(tmp_path / "store"))
    assert (report.verdict, report.findings) == ("PASSED", ())


@pytest.mark.parametrize("name", names())
def test_a_bad_release_has_the_finding_that_it_is_named_after(tmp_path: Path, name: str) -> None:
    release = unpacked(name, tmp_path / "store")
    report = verified(release)
    assert report.verdict == "FAILED"
    assert {finding.code for finding in report.findings} == release.codes
    assert name in release.codes


@pytest.mark.parametrize("name", ["member.content-substituted", "storage.digest-mismatch"])
def test_the_command_line_finds_the_same(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    release = unpacked(name, tmp_path / "store")
    keys = tmp_path / ".shardrel" / "keys"
    keys.mkdir(parents=True, mode=0o700)
    (keys / "verifier.pem").write_bytes(key("verifier").to_pem())
    (keys / "verifier.pem").chmod(0o600)
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    answer = command("verify", release.root, "--store", str(release.store), "--dataset", release.dataset, status=1)
    assert answer["verdict"] == "FAILED"
    assert {finding["code"] for finding in answer["findings"]} == release.codes


def test_few_findings_need_another_beside_them() -> None:
    also = {name: json.loads((FOLDER / name / "release.json").read_text())["also"] for name in names()}
    assert {name for name, codes in also.items() if codes} == {"record.invalid-utf8", "record.tuple-field"}


def without_fixture() -> set[str]:
    """Codes, and families of them, that the README gives a reason for."""
    table = (FOLDER / "README.md").read_text().split("## Without a fixture")[1]
    return set(re.findall(r"^\| `([^`]+)`", table, flags=re.MULTILINE))


def named_by_the_verifier() -> set[str]:
    """Every code that a module of the verifier names."""
    found = set()
    for path in VERIFIER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode":
                found.add(ErrorCode[node.attr].value)
    return found


def test_every_finding_has_a_fixture_or_a_reason_for_having_none() -> None:
    reasons = without_fixture()
    families = {code.removesuffix("*") for code in reasons if code.endswith("*")}
    left = {
        code
        for code in named_by_the_verifier() - set(names()) - reasons
        if not any(code.startswith(family) for family in families)
    }
    assert not left, sorted(left)
    assert not reasons & set(names())
