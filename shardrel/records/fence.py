"""Fence logs: what must never be in a release. Source: schemas/SPEC.md#fence-logs"""

from itertools import pairwise
from typing import Annotated, Literal

import msgspec

from shardrel.records.descriptor import Descriptor
from shardrel.records.fields import END, DigestField, Positive, ReasonCode, Record

MIN_WORDS, MAX_WORDS = 3, 64
SCREEN_DIGITS = 8
HexDigest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class TombstoneEntry(Record, frozen=True, kw_only=True):
    """One deletion; exactly one of sample_id, source_id and content_digest is set.

    Attributes:
        source_version: Only with ``source_id``; null means every version.
    """

    sequence: Positive
    sample_id: str | None
    source_id: str | None
    source_version: str | None
    content_digest: DigestField | None
    reason: ReasonCode | None

    def __post_init__(self) -> None:
        if (self.sample_id, self.source_id, self.content_digest).count(None) != 2:
            raise ValueError("an entry selects in one way")
        if self.source_id is None and self.source_version is not None:
            raise ValueError("a source version stands beside a source id")


class Shingles(Record, frozen=True, kw_only=True):
    """The distinct normalised n-word shingles of a benchmark text.

    Attributes:
        words: n.
        least: How many of the digests one text has to share to be named.
        digests: Full digests, in ascending order.
        screens: The screen of each, in the same order, as 8 hexadecimal digits.

    Source: schemas/SPEC.md#shingles
    """

    words: Annotated[int, msgspec.Meta(ge=MIN_WORDS, le=MAX_WORDS)]
    least: Positive
    digests: Annotated[tuple[HexDigest, ...], msgspec.Meta(min_length=1)]
    screens: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{8})+" + END)]

    def __post_init__(self) -> None:
        if self.least > len(self.digests):
            raise ValueError("more shingles are asked for than there are")
        if len(self.screens) != SCREEN_DIGITS * len(self.digests):
            raise ValueError("each digest has one screen")
        if any(one >= other for one, other in pairwise(self.digests)):
            raise ValueError("digests stand in ascending order, each once")


class BenchmarkEntry(Record, frozen=True, kw_only=True):
    """One benchmark item; exactly one of content_digest and text_digest is set, shingles only beside text_digest."""

    sequence: Positive
    benchmark: str
    content_digest: DigestField | None
    text_digest: DigestField | None
    shingles: Shingles | None

    def __post_init__(self) -> None:
        if (self.content_digest, self.text_digest).count(None) != 1:
            raise ValueError("an entry selects in one way")
        if self.text_digest is None and self.shingles is not None:
            raise ValueError("shingles stand beside a text digest")


class TombstoneChunk(Record, tag_field="schema", tag="training.shard.tombstone-log.v1", frozen=True, kw_only=True):
    """A contiguous run of entries, after the one that ``previous`` names."""

    kind: Literal["tombstones"]
    previous: Descriptor | None
    entries: Annotated[tuple[TombstoneEntry, ...], msgspec.Meta(min_length=1)]


class BenchmarkChunk(Record, tag_field="schema", tag="training.shard.benchmark-log.v1", frozen=True, kw_only=True):
    """A contiguous run of entries, after the one that ``previous`` names."""

    kind: Literal["benchmarks"]
    previous: Descriptor | None
    entries: Annotated[tuple[BenchmarkEntry, ...], msgspec.Meta(min_length=1)]
