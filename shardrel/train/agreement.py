"""May step 0 begin? A pure rule over the reports of all ranks. Source: schemas/SPEC.md#runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from shardrel.data.plan import duty
from shardrel.errors import ErrorCode
from shardrel.records.fields import Count, DigestField, Name, Record
from shardrel.records.release import Shard


class VerifiedShard(Record, frozen=True, kw_only=True):
    """A shard that a rank hashed: number, digest of the bytes it saw, samples of the run's split."""

    number: Count
    digest: DigestField
    samples: Count


class RankReport(Record, frozen=True, kw_only=True):
    """What one rank says before step 0.

    Attributes:
        format: Name and version of the order function; ranks of mixed versions don't train together.
        settings: Digest of everything that the ranks must be told alike (split, seed, global batch, …).
    """

    run_id: Name
    root: DigestField
    format: str
    settings: DigestField
    shards: tuple[VerifiedShard, ...]


class Sharded(Protocol):
    """Whatever has shards in order of their numbers."""

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Every rank has one root, and together they verified every shard; samples of the split by shard number."""

    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreed:
    """Step 0 must not begin."""

    code: ErrorCode
    field: str
    ranks: tuple[int, ...]


def agree(
    reports: Sequence[RankReport], run_id: str, root: str, release: Sharded, split_records: int
) -> Agreed | Disagreed:
    """Judge the reports of all ranks, in order of the ranks.

    Args:
        reports: One of every rank.
        run_id: What the coordinator sent out.
        root: What the coordinator sent out.
        release: The root manifest of that digest, or the shards of all inputs of a mix.
        split_records: Records of the split as the manifest declares them.
    """
    other = tuple(rank for rank, report in enumerate(reports) if (report.run_id, report.root) != (run_id, root))
    if other:
        return Disagreed(code=ErrorCode.RUN_ROOT_DISAGREEMENT, field="root", ranks=other)
    for field in ("format", "settings"):
        other = odd_ones([getattr(report, field) for report in reports])
        if other:
            return Disagreed(code=ErrorCode.RUN_ROOT_DISAGREEMENT, field=field, ranks=other)
    return _coverage(reports, release, split_records)


def odd_ones(values: Sequence[str]) -> tuple[int, ...]:
    """Ranks whose value is another than that of most, or, where as many say one as the other, than that of rank 0."""
    votes = Counter(values)
    usual = max(votes, key=lambda value: (votes[value], value == values[0]))
    return tuple(rank for rank, value in enumerate(values) if value != usual)


def _coverage(reports: Sequence[RankReport], release: Sharded, split_records: int) -> Agreed | Disagreed:
    sizes = [0] * len(release.shards)
    guilty = []
    for rank, report in enumerate(reports):
        seen = {shard.number: shard for shard in report.shards}
        for number in duty(len(release.shards), rank, len(reports)):
            shard = seen.get(number)
            if shard is None or shard.digest != release.shards[number].digest:
                guilty.append(rank)
                break
            sizes[number] = shard.samples
    if guilty:
        return Disagreed(code=ErrorCode.RUN_COVERAGE, field="shards", ranks=tuple(guilty))
    if sum(sizes) != split_records:
        return Disagreed(code=ErrorCode.RUN_COVERAGE, field="samples", ranks=tuple(range(len(reports))))
    return Agreed(sizes=tuple(sizes))
