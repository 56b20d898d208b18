"""Operations: one id, one effect, however often it is asked. Source: schemas/SPEC.md#operations."""

from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, OutcomeUnknownError, RefusedError
from shardrel.gate.head import broken, read_transition
from shardrel.gate.view import GateView
from shardrel.records.transition import Operation, Request, Transition
from shardrel.store.layout import operation_key
from shardrel.store.objects import get_by_digest
from shardrel.store.port import AlreadyPresent, Conflict, Store, Unknown, Written
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES

_MAX_INTENT = 4096


@dataclass(frozen=True, slots=True)
class Intent:
    """What the store holds under the operation's id, and whether this call put it there."""

    operation: Operation
    fresh: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A transition that is part of the history, and the digest of its envelope."""

    transition: Transition
    digest: str


def request_digest(request: Request) -> str:
    """Digest of the request's canonical bytes."""
    return digest_of(json.encode(request))


def declare(store: Store, dataset: str, operation: Operation) -> Intent:
    """Write the intent of an operation, or find the one that is there.

    Raises:
        RefusedError: ``gate.operation-reused`` when the id was used for another request.
        OutcomeUnknownError: ``outcome-unknown.create``.

    Effects: one create.
    """
    outcome = store.create(operation_key(dataset, operation.operation_id), json.encode(operation))
    match outcome:
        case Written():
            return Intent(operation, fresh=True)
        case AlreadyPresent():
            return Intent(operation, fresh=False)
        case Conflict():
            return Intent(_same_request(find_intent(store, dataset, operation.operation_id), operation), fresh=False)
        case Unknown(reason=reason):
            raise OutcomeUnknownError(
                ErrorCode.OUTCOME_CREATE,
                "it is not known whether the intent was written; run the same command again",
                reason=reason,
            )


def find_intent(store: Store, dataset: str, operation_id: str) -> Operation | None:
    """The intent under this id, if there is one."""
    stored = store.read(operation_key(dataset, operation_id), max_bytes=_MAX_INTENT)
    return None if stored is None else json.decode(stored.data, Operation)


def find_done(store: Store, view: GateView, operation: Operation) -> Done | None:
    """Walk back from the head to the operation's recorded head, looking for its own success.

    Raises:
        RefusedError: ``gate.operation-reused``.
        IntegrityError: ``gate.history-broken`` when the recorded head is not part of the history.
    """
    done = Done(view.transition, view.state.head)
    while done.digest != operation.head:
        if done.transition.operation_id == operation.operation_id:
            if done.transition.request_digest != operation.request_digest:
                raise _reused(operation.operation_id)
            return done
        parent = done.transition.parent
        if parent == operation.head:
            return None  # what was seen before need not be read again
        if parent is None:
            raise broken("the history does not hold a head that was seen before; was the store rolled back?")
        done = read_done(store, parent)
    return None


def read_done(store: Store, digest: str) -> Done:
    """The transition whose envelope has this digest; the digest vouches for it."""
    return Done(read_transition(get_by_digest(store, digest, max_bytes=MAX_ENVELOPE_BYTES)), digest)


def _same_request(found: Operation | None, ours: Operation) -> Operation:
    if found is None:
        raise broken("an operation's intent went away", operationId=ours.operation_id)
    if (found.request_digest, found.operation_id) != (ours.request_digest, ours.operation_id):
        raise _reused(ours.operation_id)
    return found


def _reused(operation_id: str) -> RefusedError:
    return RefusedError(
        ErrorCode.GATE_OPERATION_REUSED, "this operation id was used for another request", operationId=operation_id
    )
