"""The report of schema evolution, made again from both record schemas. Source: schemas/SPEC.md#schema-evolution"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, IntegrityError, NotFoundError
from shardrel.gate.facts import SeenEvolution
from shardrel.gate.former import former_publishers
from shardrel.gate.schema_rule import judge
from shardrel.gate.view import GateView
from shardrel.records.descriptor import Descriptor
from shardrel.records.evolution import EVOLUTION_PREDICATE, SchemaEvolution
from shardrel.records.release import Release
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from verifier.provenance import too_few
from verifier.schema import is_sound
from verifier.schema_changes import RenameError, changes_between
from verifier.tally import Spot


def check_evolution(
    store: Store, root: str, release: Release, gate: GateView, attested: Iterable[SeenEvolution]
) -> Iterator[Spot]:
    """What is wrong with the comparison that a release names, and what the policy has against it.

    Args:
        store: Where both releases are.
        root: The release's digest.
        release: Its manifest.
        gate: Whose policy counts.
        attested: Reports about this root that trusted publishers signed.

    Raises:
        UnavailableError: The store does not answer.
    """
    report: SchemaEvolution | None = None
    if release.schema_evolution is not None:
        made = _made_again(store, release, release.schema_evolution)
        if isinstance(made, Spot):
            yield made
            return
        report = made
        keys = {key for seen in attested if seen.report == report for key in seen.key_ids}
        threshold = gate.policy.roles.publisher.threshold
        if len(keys) < threshold:
            former = former_publishers(store, gate, root, EVOLUTION_PREDICATE)
            detail = too_few(len(keys), threshold, former)
            yield Spot(code=ErrorCode.EVOLUTION_NOT_ATTESTED, subject=root, detail=detail)
    refusal = judge(gate.body, gate.policy, root, report)
    if refusal is not None:
        yield Spot(code=refusal.code, subject=root, detail=str(refusal.context.get("changes") or refusal.message))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """What a report says, and both releases with their record schemas."""

    claimed: SchemaEvolution
    previous: Release
    release: Release
    old: RecordSchema
    new: RecordSchema


def _made_again(store: Store, release: Release, named: Descriptor) -> SchemaEvolution | Spot:
    """The report as it should be; what is said in its place where the one that is named does not hold."""
    sides = _read(store, release, named)
    if isinstance(sides, Spot):
        return sides
    if (wrong := _incomparable(sides)) is not None:
        return wrong
    made = _compared(sides)
    if made == sides.claimed:
        return made
    detail = (
        "a rename that it declares fits nowhere" if made is None else "the schemas differ in another way than it says"
    )
    return Spot(code=ErrorCode.EVOLUTION_MISMATCH, subject=named.digest, detail=detail)


def _read(store: Store, release: Release, named: Descriptor) -> _Sides | Spot:
    subject = named.digest
    try:
        claimed = get_record(store, named, SchemaEvolution)
        subject = claimed.previous
        previous = json.decode(get_by_digest(store, subject), Release)
        subject = previous.objects.record_schema.digest
        old = get_record(store, previous.objects.record_schema, RecordSchema)
        subject = release.objects.record_schema.digest
        new = get_record(store, release.objects.record_schema, RecordSchema)
    except (NotFoundError, IntegrityError, FormatError) as err:
        return Spot(code=err.code, subject=subject, detail=err.message)
    return _Sides(claimed=claimed, previous=previous, release=release, old=old, new=new)


def _incomparable(sides: _Sides) -> Spot | None:
    if sides.previous.dataset != sides.release.dataset:
        detail = "the previous release is of another dataset"
        return Spot(code=ErrorCode.ROOT_DATASET, subject=sides.claimed.previous, detail=detail)
    for schema, one in ((sides.old, sides.previous), (sides.new, sides.release)):
        if not is_sound(schema):
            subject = one.objects.record_schema.digest
            return Spot(code=ErrorCode.RECORD_SCHEMA, subject=subject, detail="no source has such columns")
    return None


def _compared(sides: _Sides) -> SchemaEvolution | None:
    """The report of these sides; None where a declared rename fits nowhere."""
    claimed = sides.claimed
    try:
        changes = changes_between(sides.old, sides.new, claimed.renames)
    except RenameError:
        return None
    return SchemaEvolution(
        previous=claimed.previous,
        previous_schema=sides.previous.objects.record_schema.digest,
        record_schema=sides.release.objects.record_schema.digest,
        renames=tuple(sorted(claimed.renames, key=lambda rename: rename.path)),
        changes=changes,
    )
