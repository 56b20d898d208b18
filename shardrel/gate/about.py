"""Everything that a gate knows about one root: who said what and when, and what happened to it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from shardrel.errors import ErrorCode, NotFoundError
from shardrel.gate.candidates import CandidateState, state_of
from shardrel.gate.eligibility import Eligible, eligible
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence, Refuse
from shardrel.gate.history import read_history
from shardrel.gate.log import LogEntry, entries_of
from shardrel.gate.permit_lives import PermitLife, permit_lives
from shardrel.gate.view import GateView
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.gate import Candidate
from shardrel.records.policy import Policy
from shardrel.records.report import Report
from shardrel.store.port import Store
from shardrel.trust.keys import key_id
from shardrel.trust.policy import ROLE_NAMES, keys_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A statement about the root that a key of the policy signed.

    Attributes:
        kind: ``provenance``, ``schema-evolution``, ``report`` or ``approval``.
        by: Names of the keys, of those in the role that may say so.
        when: As its signer wrote it; None where the statement holds no time.
        about: The predicate: a provenance as plain JSON values.
    """

    kind: str
    by: tuple[str, ...]
    when: str | None
    envelope: str
    about: Report | SchemaEvolution | dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a root at one state of the gate.

    Attributes:
        state: In the word that every verb has for it.
        verdict: Whether an alias could be pointed to it now, or why not.
        aliases: Those that point to it, with their generations.
        runs: Open ones on it.
        history: The transitions that are about it, its runs or its permits.
    """

    root: str
    sequence: int
    recorded_at: str
    candidate: Candidate
    state: CandidateState
    verdict: Eligible | Refuse
    aliases: dict[str, int]
    runs: tuple[str, ...]
    said: tuple[Said, ...]
    permits: tuple[PermitLife, ...]
    history: tuple[LogEntry, ...]


def about_root(store: Store, view: GateView, root: str) -> About:
    """Read the history and what is attached to a root.

    Raises:
        NotFoundError: ``gate.unknown-root``; ``storage.object-absent``.
        IntegrityError: ``gate.history-broken``.
    """
    body = view.body
    candidate = body.candidates.get(root)
    if candidate is None:
        raise NotFoundError(ErrorCode.GATE_UNKNOWN_ROOT, "the gate has not heard of this root", root=root)
    evidence = gather(store, root, view.policy)
    entries = entries_of(read_history(store, view))
    permits = tuple(life for life in permit_lives(entries) if life.root == root)
    return About(
        root=root,
        sequence=body.sequence,
        recorded_at=view.transition.recorded_at,
        candidate=candidate,
        state=state_of(body, root, evidence, view.policy) or candidate.state,
        verdict=eligible(body, root, evidence, view.policy, ask_approvals=True),
        aliases={name: alias.generation for name, alias in sorted(body.aliases.items()) if alias.root == root},
        runs=tuple(sorted(name for name, run in body.runs.items() if root in run.roots)),
        said=tuple(sorted(_said(evidence, view.policy), key=lambda one: (one.when or "", one.kind, one.envelope))),
        permits=permits,
        history=tuple(_concerning(entries, root, permits)),
    )


def _said(evidence: Evidence, policy: Policy) -> Iterator[Said]:
    names = {key_id(key): key.name for key in keys_of(policy, ROLE_NAMES)}

    def said(kind: str, seen: Any, when: str | None, about: Any) -> Said:
        by = tuple(sorted(names[one] for one in seen.key_ids))
        return Said(kind=kind, by=by, when=when, envelope=seen.envelope, about=about)

    for made in evidence.provenance:
        predicate = msgspec.json.decode(made.predicate)
        yield said("provenance", made, _finished(predicate), predicate)
    for compared in evidence.evolutions:
        yield said("schema-evolution", compared, None, compared.report)
    for checked in evidence.reports:
        yield said("report", checked, checked.report.finished_on, checked.report)
    for approved in evidence.approvals:
        yield said("approval", approved, approved.approval.approved_on, None)


def _finished(predicate: Any) -> str | None:
    """When a build ended, by a predicate of whatever shape."""
    for name in ("runDetails", "metadata", "finishedOn"):
        predicate = predicate.get(name) if isinstance(predicate, dict) else None
    return predicate if isinstance(predicate, str) else None


def _concerning(entries: Sequence[LogEntry], root: str, permits: Iterable[PermitLife]) -> Iterator[LogEntry]:
    names = frozenset(life.permit for life in permits)
    runs = {life.subject for life in permits if life.kind == "run"}
    for entry in entries:
        request, effects = entry.request, entry.effects
        named = root in (getattr(request, "root", None), effects.root) or root in getattr(request, "roots", ())
        if named or getattr(request, "run", None) in runs or not names.isdisjoint(effects.closed_permits):
            yield entry
