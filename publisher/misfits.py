"""Where a source departs from its snapshot: the first few wrong records, by file and row, and what is missing.

Nothing of a record is told: one that the source holds is named by its place, one that it lacks by the digest of its
sample id, as in a verifier's findings. Source: schemas/SPEC.md#publish
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from publisher.arrange import Range, members_of
from publisher.members import MemberReader
from publisher.stage import Staged
from shardrel.digest import digest_of
from shardrel.membership.columns import Members, plain
from shardrel.membership.diff import Difference, Positions, apart
from shardrel.membership.order import canonical_order
from shardrel.records.schema import RecordSchema

# So many of each kind are named; the counts are of all.
NAMED = 5


@dataclass(slots=True)
class Misfits:
    """Sample ids of the first few members of each kind, in canonical order."""

    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def misfits(
    staged: Staged, ordered: Sequence[Range], differences: Sequence[Difference], due: Callable[[int], Members]
) -> Misfits:
    """Compare the ranges that differ once more, as far as it takes to name a few.

    Args:
        staged: The records that were read.
        ordered: All ranges.
        differences: Of each range.
        due: Reads the members that the snapshot declares in one range.
    """
    total, found = sum(differences, Difference()), Misfits()
    for number, (part, difference) in enumerate(zip(ordered, differences, strict=True)):
        if difference and _more(found, total):
            declared, held = due(number), members_of(staged, np.sort(part.records))
            held = held.take(canonical_order(held))
            where = apart(declared, held)
            found.missing += _ids(declared, where.missing)
            found.extra += _ids(held, where.extra)
            found.changed += _ids(held, where.changed)
    return Misfits(missing=found.missing[:NAMED], extra=found.extra[:NAMED], changed=found.changed[:NAMED])


def told(found: Misfits, reader: MemberReader, *, digests: bool) -> Mapping[str, list[str]]:
    """The misfits as the context of an error: places as ``<path>#<row>``, rows counted from 0.

    Args:
        found: Whom to look for.
        reader: Reads ids alone, once more, until all are found.
        digests: Whether ids may be told by their digests, which let whoever has a list of ids look them up.

    Raises:
        InvalidInputError: What reading the sources raises; ``source.changed-while-read``.
    """
    places = _places(reader, {*found.extra, *found.changed})
    return {
        "missingSamples": [digest_of(sample_id.encode()) for sample_id in found.missing if digests],
        "extraRecords": [place for sample_id in found.extra for place in places[sample_id]][:NAMED],
        "changedRecords": [place for sample_id in found.changed for place in places[sample_id]][:NAMED],
    }


def other_columns(declared: RecordSchema, read: RecordSchema) -> list[str]:
    """Names of the first few columns that one of both schemas does not have in this place, or not like this."""
    have = {one.name: (place, one) for place, one in enumerate(read.fields)}
    want = {one.name: (place, one) for place, one in enumerate(declared.fields)}
    return [name for name in {**want, **have} if have.get(name) != want.get(name)][:NAMED]


def _places(reader: MemberReader, wanted: set[str]) -> dict[str, list[str]]:
    """All places of each sample id: one that is there twice is wrong in both."""
    places: dict[str, list[str]] = {sample_id: [] for sample_id in wanted}
    if wanted:
        for sample_id, file, row in reader.places(wanted):
            places[sample_id].append(f"{reader.files[file].path}#{row}")
    return places


def _more(found: Misfits, total: Difference) -> bool:
    kinds = ((found.missing, total.missing), (found.extra, total.extra), (found.changed, total.changed))
    return any(len(named) < min(NAMED, count) for named, count in kinds)


def _ids(members: Members, positions: Positions) -> list[str]:
    ids: list[str] = plain(members.take(positions[:NAMED]).sample_ids).to_pylist()
    return ids
