"""How the schema of a release differs from that of a previous one that a person named.

Source: schemas/SPEC.md#schema-evolution
"""

from collections.abc import Sequence
from dataclasses import dataclass

from publisher.declared import Declared
from publisher.options import PublishOptions
from publisher.provenance import has_statement
from shardrel.canonical import json
from shardrel.errors import ErrorCode, NotFoundError, RefusedError
from shardrel.gate.attestations import attach
from shardrel.gate.refusals import as_error
from shardrel.gate.schema_rule import judge
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import Descriptor
from shardrel.records.evolution import EVOLUTION_PREDICATE, SchemaEvolution
from shardrel.records.release import Release
from shardrel.records.report import STATEMENT_PAYLOAD
from shardrel.records.schema import RecordSchema
from shardrel.records.schema_changes import Side, evolution
from shardrel.store.objects import get_by_digest, get_record, put_record
from shardrel.store.port import Store
from shardrel.trust.envelope import seal
from shardrel.trust.signer import Signer
from shardrel.trust.statement import statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A report and where it lies."""

    report: SchemaEvolution
    object: Descriptor


def compare_with_previous(store: Store, declared: Declared, options: PublishOptions) -> Compared | None:
    """Compare the declared record schema with that of the previous root; None where none is named.

    Raises:
        InvalidInputError: ``input.schema-rename``, ``input.invalid``.
        RefusedError: ``storage.object-absent``, ``root.wrong-dataset``, and what the policy says no to:
            ``evolution.previous-not-admitted``, ``evolution.change-not-allowed``.

    Effects: one create.
    """
    if options.previous is None:
        return None
    report = _report(store, declared, options.previous, options)
    gate = read_gate(store, declared.snapshot.dataset)
    refusal = judge(gate.body, gate.policy, None, report)
    if refusal is not None:
        raise as_error(refusal)
    return Compared(report=report, object=put_record(store, report))


def attest(store: Store, root: str, dataset: str, compared: Compared, signers: Sequence[Signer]) -> None:
    """Sign the report with the new root as its subject, by each key that has not done so.

    Effects: at most one create a key.
    """
    for signer in signers:
        if not has_statement(store, root, signer, EVOLUTION_PREDICATE):
            payload = statement(root, EVOLUTION_PREDICATE, compared.report, dataset)
            attach(store, root, seal(payload, STATEMENT_PAYLOAD, [signer]))


def _report(store: Store, declared: Declared, previous: str, options: PublishOptions) -> SchemaEvolution:
    try:
        release = json.decode(get_by_digest(store, previous), Release)
        schema = get_record(store, release.objects.record_schema, RecordSchema)
    except NotFoundError as err:
        raise RefusedError(
            ErrorCode.STORAGE_ABSENT, "the previous release, or its record schema, is not in this store", root=previous
        ) from err
    if release.dataset != declared.snapshot.dataset:
        raise RefusedError(
            ErrorCode.ROOT_DATASET, "the previous release is one of another dataset", dataset=release.dataset
        )
    old = Side(digest=release.objects.record_schema.digest, schema=schema)
    new = Side(digest=declared.schema_object.digest, schema=declared.record_schema)
    return evolution(previous, old, new, options.renames)
