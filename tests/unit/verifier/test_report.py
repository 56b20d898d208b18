"""Findings to counts, verdict and summary; observations to findings; provenance."""

from collections.abc import Sequence
from unittest.mock import ANY

import msgspec
import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode
from shardrel.gate.facts import SeenProvenance
from shardrel.records.report import BUILD_TYPE, Counts, Finding, LogRange, Report
from verifier.provenance import check_provenance
from verifier.report import MAX_FINDINGS, Subject, counts_of, report_of, summary_of
from verifier.tally import Spot, Tally

ROOT = digest_of(b"root")
NOTHING = LogRange(first=0, last=0, log=None)
SUBJECT = Subject(root=ROOT, dataset="d", gate_id="g", gate_sequence=1, tombstones=NOTHING, benchmarks=NOTHING)


def finding(code: ErrorCode, count: int = 1) -> Finding:
    """A finding about the root."""
    return Finding(code=code, subject=ROOT, count=count)


def report(findings: list[Finding]) -> Report:
    """A full report of these findings."""
    return report_of(SUBJECT, findings, kind="full", shards=1, records=1, times=("a", "b"))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.MEMBER_MISSING, "missing"),
        (ErrorCode.MEMBER_EXTRA, "extra"),
        (ErrorCode.MEMBER_DUPLICATE, "duplicate"),
        (ErrorCode.MEMBER_SCHEMA, "substituted"),
        (ErrorCode.MEMBER_SPLIT, "split_conflict"),
        (ErrorCode.TOMBSTONE_HIT, "tombstone_hits"),
        (ErrorCode.BENCHMARK_HIT, "benchmark_hits"),
        (ErrorCode.LOGICAL_DIGEST, "digest_failures"),
    ],
)
def test_each_code_adds_to_its_count(code: ErrorCode, name: str) -> None:
    assert counts_of([finding(code, 3), finding(code)]) == Counts(**{name: 4})


def test_any_finding_fails_even_one_that_counts_nowhere() -> None:
    assert report([]).verdict == "PASSED"
    failed = report([finding(ErrorCode.ROOT_TOTALS)])
    assert (failed.verdict, failed.counts) == ("FAILED", Counts())
    assert summary_of(failed, ROOT, ROOT)["verificationResult"] == "FAILED"
    assert summary_of(failed, ROOT, ROOT)["verifiedLevels"] == ["FAILED"]


def test_a_report_keeps_a_thousand_findings_and_counts_all() -> None:
    many = report([finding(ErrorCode.MEMBER_MISSING)] * (MAX_FINDINGS + 5))
    assert len(many.findings) == MAX_FINDINGS
    assert (many.findings_total, many.counts.missing) == (MAX_FINDINGS + 5, MAX_FINDINGS + 5)


def test_observations_of_one_kind_become_one_finding_whatever_their_order() -> None:
    spots = [
        Spot(code=ErrorCode.MEMBER_EXTRA, subject="s", count=2, row=9, sample_id="i9"),
        Spot(code=ErrorCode.MEMBER_EXTRA, subject="s", count=1, row=4, sample_id="i4"),
        Spot(code=ErrorCode.MEMBER_EXTRA, subject="a", count=1, row=7, sample_id="i7"),
    ]
    results = []
    for order in (spots, spots[::-1]):
        tally = Tally()
        for spot in order:
            tally.add([spot])
        results.append(tally.findings())
    assert results[0] == results[1]
    merged = results[0][1]
    assert (merged.subject, merged.count, merged.row, merged.sample_digest) == ("s", 3, 4, digest_of(b"i4"))


def predicate(**changes: object) -> bytes:
    """A provenance predicate, with changes in its build definition."""
    definition = {"buildType": BUILD_TYPE, "externalParameters": {"snapshot": ROOT, "parameters": {"seed": 0}}}
    return msgspec.json.encode({"buildDefinition": {**definition, **changes}})


def by(*keys: str, predicate: bytes = predicate()) -> SeenProvenance:
    """A provenance that these publishers signed."""
    return SeenProvenance(envelope=ROOT, key_ids=frozenset(keys), predicate=predicate)


def spots(
    seen: Sequence[SeenProvenance], threshold: int = 1, former: Sequence[str] = ()
) -> list[tuple[ErrorCode, str | None]]:
    """Codes and words of what is found."""
    found = check_provenance(ROOT, ROOT, seen, threshold=threshold, former=lambda: former)
    return [(spot.code, spot.detail) for spot in found]


@pytest.mark.parametrize(
    "wrong",
    [
        b"no json",
        b"[]",
        b"{}",
        predicate(buildType="https://example.org/other"),
        predicate(externalParameters={"snapshot": digest_of(b"other"), "parameters": {}}),
        predicate(externalParameters={"snapshot": ROOT, "parameters": {"unheard-of": 1}}),
        predicate(externalParameters={"snapshot": ROOT, "parameters": {}, "more": 1}),
        predicate(externalParameters=None),
    ],
)
def test_provenance_that_is_not_understood_is_a_finding(wrong: bytes) -> None:
    assert spots([by("a", predicate=wrong)]) == [(ErrorCode.PROVENANCE_INVALID, ANY)]
    assert spots([by("a", predicate=wrong), by("a")]) == []
    assert [code for code, _ in spots([by("a", predicate=wrong), by("a")], threshold=2)] == [
        ErrorCode.PROVENANCE_ABSENT
    ]


def test_no_provenance_is_a_finding() -> None:
    assert spots([]) == [(ErrorCode.PROVENANCE_ABSENT, None)]


def test_a_threshold_counts_distinct_publishers() -> None:
    assert spots([by("a"), by("b")], threshold=2) == []
    assert spots([by("a", "b")], threshold=2) == []
    [(code, detail)] = spots([by("a"), by("a")], threshold=2)
    assert (code, "1 of 2" in str(detail)) == (ErrorCode.PROVENANCE_ABSENT, True)


@pytest.mark.parametrize(("names", "told"), [(1, "by k0, a key"), (3, "by k0, k1, k2, a key"), (5, "k2 and 2 more")])
def test_keys_that_were_publishers_once_are_named(names: int, told: str) -> None:
    [(code, detail)] = spots([], former=[f"k{number}" for number in range(names)])
    assert (code, told in str(detail)) == (ErrorCode.PROVENANCE_ABSENT, True)
