"""log: what happened to a gate, checked from its beginning. Source: schemas/SPEC.md#gate-state."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.gate.history import Link, read_history
from shardrel.gate.view import read_gate
from shardrel.records.transition import Effects, Request
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One transition, for people and scripts; ``signers`` are names of keys by the policy of their time."""

    sequence: int
    kind: str
    role: str
    signers: tuple[str, ...]
    operation_id: str
    recorded_at: str
    digest: str
    parent: str | None
    request: Request
    effects: Effects
    attestations: tuple[str, ...]


def read_entries(store: Store, dataset: str) -> list[LogEntry]:
    """All transitions, oldest first; links and signatures are checked.

    One read a transition.

    Raises:
        NotFoundError: ``gate.absent``, ``storage.object-absent``.
        IntegrityError: ``gate.history-broken``.
    """
    return entries_of(read_history(store, read_gate(store, dataset)))


def entries_of(links: Sequence[Link]) -> list[LogEntry]:
    """The entries of a history that was read and checked."""
    return [_entry(link) for link in links]


def must_hold(digests: Sequence[str], saved: Sequence[str]) -> None:
    """Check that a history goes on where a saved one ended. Whoever rolled the gate back is found out here.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    kept = next((at for at, (new, old) in enumerate(zip(digests, saved, strict=False)) if new != old), None)
    if kept is not None or len(digests) < len(saved):
        raise IntegrityError(
            ErrorCode.GATE_HISTORY,
            "the history does not hold what it held before; somebody rolled the gate back or replaced it",
            sequence=min(len(digests), len(saved)) if kept is None else kept + 1,
        )


def kind_of(request: Request) -> str:
    """The request's kind, as it is written."""
    return str(type(request).__struct_config__.tag)


def _entry(link: Link) -> LogEntry:
    made = link.transition
    return LogEntry(
        sequence=made.sequence,
        kind=kind_of(made.request),
        role=made.role,
        signers=link.signers,
        operation_id=made.operation_id,
        recorded_at=made.recorded_at,
        digest=link.digest,
        parent=made.parent,
        request=made.request,
        effects=made.effects,
        attestations=made.attestations,
    )
