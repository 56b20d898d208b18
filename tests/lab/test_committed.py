"""The two bundles in docs/: their records fit together, are signed, and the pages beside them are drawn from them."""

import json
import shutil
from pathlib import Path

import pytest

from shardrel.cli.main import main
from shardrel.lab import bundle as bundles
from shardrel.lab.evidence import EVIDENCE_PAYLOAD
from shardrel.lab.fashion import FASHION_MNIST
from shardrel.lab.judge import exits, final, judge
from shardrel.lab.page import page
from shardrel.lab.verify import verify_records
from shardrel.trust.envelope import unseal
from shardrel.trust.keyring import load_public_file

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "crash-lab"
# As the documentation says: selected generation and step, hint, batches trained twice, last generation and step.
SAID = {
    "commit-after-file-fsync": ((0, 1), "current", 1, (2, 2)),
    "commit-after-rename": ((1, 2), "stale", 0, (3, 3)),
}


@pytest.mark.parametrize("barrier", SAID)
def test_the_committed_evidence_is_what_the_page_about_it_says(barrier: str) -> None:
    found = bundles.read(EVIDENCE / barrier)
    recovery, choice, last = found.recovery, found.recovery.choice, final(found.recovery.lineages)
    seen = ((choice.generation, choice.step), choice.hint, recovery.replayed, (last.generation, last.step))
    assert (found.audit.barrier, seen) == (barrier, SAID[barrier])
    assert (exits(recovery.groups), last.world_size, found.reference.samples) == (19, 3, 10_000)
    assert [one.digest for one in found.audit.resources] == [one.digest for one in FASHION_MNIST.resources]
    assert found.audit.revision is not None


@pytest.mark.parametrize("barrier", SAID)
def test_the_committed_evidence_fits_together_and_is_signed(barrier: str) -> None:
    found = bundles.read(EVIDENCE / barrier)
    assert judge(found.reference, found.recovered, found.recovery, found.audit.ranks) == []
    assert bundles.digests(found.folder) == found.audit.files
    key = load_public_file(EVIDENCE / "lab.pub.json")
    assert unseal(found.signature, EVIDENCE_PAYLOAD, [key]).payload == found.audit_bytes


@pytest.mark.parametrize("barrier", SAID)
def test_the_committed_page_is_drawn_from_the_evidence(barrier: str) -> None:
    assert (EVIDENCE / f"{barrier}.html").read_text() == page(bundles.read(EVIDENCE / barrier))


@pytest.mark.parametrize("barrier", SAID)
def test_the_command_that_the_page_shows_checks_the_committed_records(
    barrier: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["verify-bundle", str(EVIDENCE / barrier), "--signed-by", str(EVIDENCE / "lab.pub.json"), "--json"]
    assert main([*line, "--records-only"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["barrier"], answer["failures"]) == ("PASSED", barrier, [])
    assert {"state", "ledger", "logits"} < set(answer["unproven"])
    assert main(line) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["failures"] == [{"check": "structure", "subject": "stores: storage.object-absent"}]
    assert main(line[:-1]) == 1
    assert "--records-only" in capsys.readouterr().out


@pytest.mark.parametrize("name", [bundles.AUDIT, bundles.SIGNATURE, bundles.RECOVERY, bundles.REFERENCE])
def test_a_changed_record_fails_without_the_stores_too(tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(EVIDENCE / "commit-after-rename", tmp_path / "bundle")
    key = load_public_file(EVIDENCE / "lab.pub.json")
    package = bundles.read(folder).audit.package
    clean = verify_records(folder, [key], FASHION_MNIST, package)
    assert (clean.failures, "package" in clean.unproven) == ((), False)
    data = (folder / name).read_bytes()
    at = data.rindex(b"0")
    (folder / name).write_bytes(data[:at] + b"1" + data[at + 1 :])
    assert verify_records(folder, [key], FASHION_MNIST, package).failures
    (folder / name).unlink()
    [failure] = verify_records(folder, [key], FASHION_MNIST, package).failures
    assert failure.subject == f"{name}: storage.object-absent"
