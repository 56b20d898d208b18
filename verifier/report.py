"""Findings to counts to verdict. Pure. Source: schemas/SPEC.md#verification"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import asdict

from shardrel.errors import ErrorCode
from shardrel.records.report import Counts, Finding, LogRange, Report

MAX_FINDINGS = 1000
VERIFIER = "https://shardrel.dev/verifier/v1"

_MEMBER_COUNTS = {
    ErrorCode.MEMBER_MISSING: "missing",
    ErrorCode.MEMBER_EXTRA: "extra",
    ErrorCode.MEMBER_DUPLICATE: "duplicate",
    ErrorCode.MEMBER_CONTENT: "substituted",
    ErrorCode.MEMBER_SOURCE_ID: "substituted",
    ErrorCode.MEMBER_SOURCE_VERSION: "substituted",
    ErrorCode.MEMBER_SCHEMA: "substituted",
    ErrorCode.MEMBER_SPLIT: "split_conflict",
    ErrorCode.TOMBSTONE_HIT: "tombstone_hits",
    ErrorCode.BENCHMARK_HIT: "benchmark_hits",
}
# Bytes that are not what somebody promised, at any level; each object or value counts once.
_DIGEST_FAILURES = frozenset(
    {
        ErrorCode.STORAGE_ABSENT,
        ErrorCode.STORAGE_SIZE,
        ErrorCode.STORAGE_DIGEST,
        ErrorCode.STORAGE_TOO_LARGE,
        ErrorCode.PARQUET_PAGE_CHECKSUM,
        ErrorCode.LOGICAL_DIGEST,
        ErrorCode.MEMBER_SET_DIGEST,
        ErrorCode.ORDERED_ROOT,
    }
)

FULL_CHECKS = (
    "root", "snapshot", "record-schema", "storage", "parquet", "page-checksums", "records", "logical-digest",
    "member-set", "members", "ordered-root", "totals", "tombstones", "benchmarks", "provenance", "member-index",
    "schema-evolution",
)  # fmt: skip
DELTA_CHECKS = ("tombstones", "benchmarks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a verification is about, and what it read of the gate."""

    root: str
    dataset: str
    gate_id: str
    gate_sequence: int
    tombstones: LogRange
    benchmarks: LogRange


def counts_of(findings: Sequence[Finding]) -> Counts:
    """Members and objects by kind; a member with two wrong fields counts for each."""
    totals = dict.fromkeys(asdict(Counts()), 0)
    for finding in findings:
        code = ErrorCode(finding.code)
        name = "digest_failures" if code in _DIGEST_FAILURES else _MEMBER_COUNTS.get(code)
        if name is not None:
            totals[name] += finding.count
    return Counts(**totals)


def report_of(
    subject: Subject,
    findings: Sequence[Finding],
    *,
    kind: Literal["full", "delta"],
    shards: int,
    records: int,
    times: tuple[str, str],
) -> Report:
    """The report: PASSED exactly when there is no finding.

    Args:
        findings: All of them, sorted; the report keeps the first 1,000.
        times: Start and end, as the caller's clock has them.
    """
    return Report(
        kind=kind,
        root=subject.root,
        dataset=subject.dataset,
        gate_id=subject.gate_id,
        gate_sequence=subject.gate_sequence,
        verdict="FAILED" if findings else "PASSED",
        tombstones=subject.tombstones,
        benchmarks=subject.benchmarks,
        counts=counts_of(findings),
        findings=tuple(findings[:MAX_FINDINGS]),
        findings_total=len(findings),
        shards=shards,
        records=records,
        checks=FULL_CHECKS if kind == "full" else DELTA_CHECKS,
        verifier=VERIFIER,
        started_on=times[0],
        finished_on=times[1],
    )


def summary_of(report: Report, policy: str, report_envelope: str) -> dict[str, Any]:
    """SLSA verification summary of a report.

    Source: https://slsa.dev/spec/v1.0/verification_summary
    """
    return {
        "verifier": {"id": VERIFIER},
        "timeVerified": report.finished_on,
        "resourceUri": f"shardrel:{report.dataset}",
        "policy": {"uri": f"shardrel:{report.dataset}/policy", "digest": {"sha256": policy[7:]}},
        "inputAttestations": [{"uri": f"shardrel:{report.dataset}/report", "digest": {"sha256": report_envelope[7:]}}],
        "verificationResult": report.verdict,
        "verifiedLevels": ["SLSA_BUILD_LEVEL_1"] if report.verdict == "PASSED" else ["FAILED"],
        "slsaVersion": "1.0",
    }
