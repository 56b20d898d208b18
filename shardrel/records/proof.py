"""Proof about one sample id: how many members of a release have it. Source: schemas/SPEC.md#proofs"""

from typing import Annotated

import msgspec

from shardrel.canonical import json
from shardrel.records.fields import Count, DigestField, Record
from shardrel.records.release import Release

SampleId = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class ProvenMember(Record, frozen=True, kw_only=True):
    """A member with the sample id that the proof is about; the schema digest is the release's."""

    source_id: str
    source_version: str
    content_digest: DigestField
    split: str


class Neighbour(Record, frozen=True, kw_only=True):
    """The leaf beside the members: shown only to compare its sample id.

    Attributes:
        origin: Digest of its source, version, split and schema, which stay hidden.
    """

    sample_id: SampleId
    origin: DigestField
    content_digest: DigestField


class Proof(Record, tag_field="schema", tag="training.shard.proof.v1", frozen=True, kw_only=True):
    """Presence, absence or duplication of one sample id, to be checked against a root digest alone.

    Attributes:
        about: What is asserted, in words; has to be exactly what the facts give.
        count: Members with the sample id.
        first: Index of the first shown leaf in the ordered tree.
        left: Null where the members are the tree's first leaves.
        right: Null where they are its last leaves.
        nodes: Roots of the largest subtrees without a shown leaf, from left to right.
        release: The root manifest, whose digest is the root digest.
    """

    about: str
    sample_id: SampleId
    count: Count
    first: Count
    left: Neighbour | None
    members: tuple[ProvenMember, ...]
    right: Neighbour | None
    nodes: tuple[DigestField, ...]
    release: Release


def in_words(root: str, release: Release, sample_id: str, count: int) -> str:
    """What a proof asserts, for people who read no tree."""
    number = "no member" if not count else f"exactly {_members(count)}"
    return (
        f"Release {root} of the dataset {release.dataset} holds {number} with the sample id "
        f"{json.encode(sample_id).decode()}. It has {_members(release.totals.records)}. By its manifest, deletions are "
        f"taken into account up to entry {release.tombstone_watermark} of the tombstone log, and benchmarks up to entry "
        f"{release.benchmark_fence} of the benchmark log."
    )


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"
