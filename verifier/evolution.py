"""The report of schema evolution, made again from both record schemas. Source: schemas/SPEC.md#schema-evolution"""

from collections.abc import Iterable, Iterator

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

_LARGEST = json.MAX_RECORD_BYTES


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


def _made_again(store: Store, release: Release, named: Descriptor) -> SchemaEvolution | Spot:
    """The report as it should be; what is said in its place where the one that is named does not hold."""
    subject = named.digest
    try:
        if named.size > _LARGEST:
            return Spot(
                code=ErrorCode.FORMAT_TOO_LARGE, subject=subject, detail="a record is larger than a record may be"
            )
        claimed = get_record(store, named, SchemaEvolution)
        subject = claimed.previous
        previous = json.decode(get_by_digest(store, subject), Release)
        subject = previous.objects.record_schema.digest
        old = _schema(store, previous)
        subject = release.objects.record_schema.digest
        new = _schema(store, release)
    except (NotFoundError, IntegrityError, FormatError) as err:
        return Spot(code=err.code, subject=subject, detail=err.message)
    if previous.dataset != release.dataset:
        return Spot(
            code=ErrorCode.ROOT_DATASET, subject=claimed.previous, detail="the previous release is of another dataset"
        )
    for schema, release_of in ((old, previous), (new, release)):
        if not is_sound(schema):
            return Spot(
                code=ErrorCode.RECORD_SCHEMA, subject=release_of.objects.record_schema.digest, detail="no source has such columns"
            )
    try:
        changes = changes_between(old, new, claimed.renames)
    except RenameError:
        return Spot(
            code=ErrorCode.EVOLUTION_MISMATCH, subject=named.digest, detail="a rename that it declares fits nowhere"
        )
    made = SchemaEvolution(
        previous=claimed.previous,
        previous_schema=previous.objects.record_schema.digest,
        record_schema=release.objects.record_schema.digest,
        renames=tuple(sorted(claimed.renames, key=lambda rename: rename.path)),
        changes=changes,
    )
    if made != claimed:
        return Spot(
            code=ErrorCode.EVOLUTION_MISMATCH,
            subject=named.digest,
            detail="the schemas differ in another way than it says",
        )
    return made


def _schema(store: Store, release: Release) -> RecordSchema:
    described = release.objects.record_schema
    if described.size > _LARGEST:
        raise FormatError(ErrorCode.FORMAT_TOO_LARGE, "a record is larger than a record may be")
    return get_record(store, described, RecordSchema)
