"""Verification report, summary and approval: predicates over a root digest.

Source: schemas/SPEC.md#attestations
"""

from typing import Literal

import msgspec

from shardrel.records.fields import Count, DigestField, Name, Record

REPORT_PREDICATE = "https://shardrel.dev/verification-report/v1"
APPROVAL_PREDICATE = "https://shardrel.dev/approval/v1"
PROVENANCE_PREDICATE = "https://slsa.dev/provenance/v1"
SUMMARY_PREDICATE = "https://slsa.dev/verification_summary/v1"
BUILD_TYPE = "https://shardrel.dev/publish/v1"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
STATEMENT_PAYLOAD = "application/vnd.in-toto+json"
TRANSITION_PAYLOAD = "application/vnd.shardrel.transition+json"


class Counts(Record, frozen=True, kw_only=True):
    """Members and objects that are wrong; all zero in a PASSED report."""

    missing: Count = 0
    extra: Count = 0
    duplicate: Count = 0
    substituted: Count = 0
    split_conflict: Count = 0
    tombstone_hits: Count = 0
    benchmark_hits: Count = 0
    digest_failures: Count = 0


class Finding(Record, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        code: A published error code.
        subject: The shard id, object key, root digest or manifest field that it is about.
        count: How many members or objects it covers.
        row: First row in the subject, where there is one.
        sample_digest: SHA-256 of the first sample id concerned, never the id itself.
        detail: Fixed words and numbers that help; never content.
    """

    code: str
    subject: str
    count: Count
    row: Count | None = None
    sample_digest: DigestField | None = None
    detail: str | None = None


class LogRange(Record, frozen=True, kw_only=True):
    """Entries first..last (both 0 when there was none) of a fence log, by the chunks at both ends.

    Attributes:
        log: Digest of the chunk that ends with entry ``last``.
        after: Digest of the chunk that ends with the entry before ``first``; null where there is none.
    """

    first: Count
    last: Count
    log: DigestField | None
    after: DigestField | None = None


class Report(Record, tag_field="schema", tag="training.shard.verification-report.v1", frozen=True, kw_only=True):
    """What one verification saw.

    Attributes:
        kind: ``full``: everything, both logs from their first entry. ``delta``: only the named
            entries; it extends a PASSED report that ends just before them.
        gate_sequence: Sequence of the gate state it read; orders it against invalidations.
        findings: At most 1,000; ``findings_total`` counts all.
    """

    kind: Literal["full", "delta"]
    root: DigestField
    dataset: Name
    gate_id: Name
    gate_sequence: Count
    verdict: Literal["PASSED", "FAILED"]
    tombstones: LogRange
    benchmarks: LogRange
    counts: Counts
    findings: tuple[Finding, ...]
    findings_total: Count
    shards: Count
    records: Count
    checks: tuple[str, ...]
    verifier: str
    started_on: str
    finished_on: str


class Approval(Record, tag_field="schema", tag="training.shard.approval.v1", frozen=True, kw_only=True):
    """A person's yes to one root digest."""

    root: DigestField
    dataset: Name
    gate_id: Name
    gate_sequence: Count
    approved_on: str


class Statement(msgspec.Struct, frozen=True, kw_only=True, rename={"type": "_type", "predicate_type": "predicateType"}):
    """in-toto Statement v1. Unknown fields are ignored, as its specification asks; bytes stay as received."""

    type: Literal["https://in-toto.io/Statement/v1"]
    subject: tuple["Subject", ...]
    predicate_type: str
    predicate: msgspec.Raw


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One subject; matched by its sha256 digest alone."""

    digest: dict[str, str]
    name: str | None = None
