"""Evidence about a root: what trusted keys said, as typed values. Source: schemas/SPEC.md#attestations.

An envelope that no key of the policy signed, or that says something we do not know, is ignored: anybody
may attach one. Nothing is ever refused because of what an envelope says; only its absence can refuse.
"""

from collections.abc import Iterable
from dataclasses import replace

from shardrel.canonical import json
from shardrel.errors import FormatError, TrustError
from shardrel.gate.attestations import list_envelopes, read_envelope
from shardrel.gate.facts import Evidence, SeenApproval, SeenEvolution, SeenProvenance, SeenReport
from shardrel.records.evolution import EVOLUTION_PREDICATE, SchemaEvolution
from shardrel.records.policy import Policy
from shardrel.records.report import (
    APPROVAL_PREDICATE,
    PROVENANCE_PREDICATE,
    REPORT_PREDICATE,
    STATEMENT_PAYLOAD,
    Approval,
    Report,
)
from shardrel.store.port import Store
from shardrel.trust.envelope import unseal
from shardrel.trust.policy import keys_of, members
from shardrel.trust.statement import read_statement


def gather(store: Store, root: str, policy: Policy) -> Evidence:
    """Read what is attached to a root and keep what the policy's keys signed.

    One listing, and one read an envelope.

    Args:
        store: Where to look.
        root: The root.
        policy: Whose keys count.

    Returns:
        Reports, approvals, provenance and evolutions, each with the distinct keys of its role that signed it.
    """
    evidence = Evidence(signers=frozenset(), root=root)
    for digest in list_envelopes(store, root):
        envelope = read_envelope(store, root, digest)
        if envelope is not None:
            evidence = _with(evidence, digest, envelope, root, policy)
    return evidence


def gather_all(store: Store, roots: Iterable[str], policy: Policy) -> Evidence:
    """What is said about several roots; every rule looks for what is about the root that it asks of."""
    found = [gather(store, root, policy) for root in dict.fromkeys(roots)]
    return replace(
        found[0],
        reports=tuple(seen for one in found for seen in one.reports),
        approvals=tuple(seen for one in found for seen in one.approvals),
        provenance=tuple(seen for one in found for seen in one.provenance),
        evolutions=tuple(seen for one in found for seen in one.evolutions),
    )


def _with(evidence: Evidence, digest: str, envelope: bytes, root: str, policy: Policy) -> Evidence:
    """The evidence with what this envelope adds, which may be nothing."""
    try:
        opened = unseal(envelope, STATEMENT_PAYLOAD, keys_of(policy, ("publisher", "verifier", "approver")))
        kind, predicate = read_statement(opened.payload, root, None)
        if kind == REPORT_PREDICATE and (keys := members(policy.roles.verifier, opened.key_ids)):
            seen = SeenReport(envelope=digest, key_ids=keys, report=json.decode(predicate, Report))
            return replace(evidence, reports=(*evidence.reports, seen))
        if kind == APPROVAL_PREDICATE and (keys := members(policy.roles.approver, opened.key_ids)):
            said = SeenApproval(envelope=digest, key_ids=keys, approval=json.decode(predicate, Approval))
            return replace(evidence, approvals=(*evidence.approvals, said))
        if kind == PROVENANCE_PREDICATE and (keys := members(policy.roles.publisher, opened.key_ids)):
            made = SeenProvenance(envelope=digest, key_ids=keys, predicate=predicate)
            return replace(evidence, provenance=(*evidence.provenance, made))
        if kind == EVOLUTION_PREDICATE and (keys := members(policy.roles.publisher, opened.key_ids)):
            compared = SeenEvolution(envelope=digest, key_ids=keys, report=json.decode(predicate, SchemaEvolution))
            return replace(evidence, evolutions=(*evidence.evolutions, compared))
    except (TrustError, FormatError):
        return evidence
    return evidence
