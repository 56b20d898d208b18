"""The two bundles in docs/: their records fit together, are signed, and the pages beside them are drawn from them."""

from pathlib import Path

import pytest

from shardrel.lab import bundle as bundles
from shardrel.lab.evidence import EVIDENCE_PAYLOAD
from shardrel.lab.fashion import FASHION_MNIST
from shardrel.lab.judge import exits, final, judge
from shardrel.lab.page import page
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
