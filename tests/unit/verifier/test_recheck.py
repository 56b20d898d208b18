"""Which reports a recheck builds on."""

from msgspec.structs import replace

from tests.support import gates
from tests.unit.gate.bodies import known
from verifier.recheck import _passed


def test_a_report_with_findings_has_not_passed_whatever_its_counts_say() -> None:
    report = gates.a_report(known(), gates.a_root("one"))
    assert _passed(report)
    assert not _passed(replace(report, findings_total=1))
