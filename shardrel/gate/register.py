"""The register: a decision of the rule, made real by one swap. Source: schemas/SPEC.md#operations."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from shardrel import clock
from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, OutcomeUnknownError, UnavailableError
from shardrel.gate.facts import Accept, Refuse
from shardrel.gate.judge import Gather, Judge
from shardrel.gate.operations import declare, find_done, request_digest
from shardrel.gate.refusals import as_error
from shardrel.gate.view import GateView, find_gate, read_gate
from shardrel.records.descriptor import ENVELOPE_JSON
from shardrel.records.gate import GateBody, GateState
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.records.transition import Operation, Request, Transition
from shardrel.store.layout import gate_key
from shardrel.store.objects import get, put
from shardrel.store.port import Lost, Store, Unknown, Written
from shardrel.trust.envelope import seal
from shardrel.trust.keys import key_id
from shardrel.trust.signer import Signer

__all__ = ["GateView", "Gather", "Submitted", "find_gate", "read_gate", "submit"]

_MAX_ATTEMPTS = 64
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A transition that is part of the history.

    Attributes:
        transition: What was decided; the answer of a verb is made from it alone.
        digest: Of its envelope.
        body: The gate's body as last seen: the one that it made, or a later one if it is ``repeated``.
        repeated: An earlier try of the same operation had landed.
    """

    transition: Transition
    digest: str
    body: GateBody
    repeated: bool


def submit(
    store: Store,
    dataset: str,
    request: Request,
    *,
    operation_id: str,
    signers: Sequence[Signer],
    gather: Gather,
    recorded_at: str,
    view: GateView | None = None,
) -> Submitted:
    """Make a request real, once.

    1. Declare the operation. 2. If it was declared before, look for its success in the history.
    3. Decide on the current state. 4. Store the transition's envelope. 5. Swap the state; if
    somebody else's swap came first, read the state again and go to 2.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        request: What is asked for.
        operation_id: Names the effect; the same id again has no second one.
        signers: Keys that sign the transition.
        gather: Evidence for a state; called again where the state moved on and ``Judge`` needs it.
        recorded_at: Time for people.
        view: A state that the caller has just read, to save reading it again.

    Raises:
        RefusedError, NotFoundError, ConflictError, TrustError: the rule's refusal, with its code;
            ``gate.operation-reused``.
        OutcomeUnknownError: ``outcome-unknown.create``, ``outcome-unknown.swap``.
        UnavailableError: ``store.contention`` after 64 lost swaps, and what the store says.
        IntegrityError: ``gate.history-broken``.

    Effects: creates the operation's intent, then the envelope, then swaps the state. A crash leaves
        an intent and envelopes that nothing names.

    Source: schemas/SPEC.md#operations.
    """
    view = view or find_gate(store, dataset)
    head = None if view is None else view.state.head
    intent = declare(
        store, dataset, Operation(operation_id=operation_id, request_digest=request_digest(request), head=head)
    )
    unseen = intent.operation
    judge = Judge(request, gather, frozenset(key_id(signer.public) for signer in signers))
    for attempt in range(_MAX_ATTEMPTS):
        if view is not None and (attempt or not intent.fresh):
            done = find_done(store, view, unseen)
            if done is not None:
                return Submitted(transition=done.transition, digest=done.digest, body=view.body, repeated=True)
            # The next walk ends where this one began: a busy gate must not make each try longer than the last.
            unseen = replace(unseen, head=view.state.head)
        accept = _decided(judge, view)
        policy = _policy_text(store, view, accept)
        state, transition = _next_state(view, dataset, request, accept, policy, intent.operation, signers, recorded_at)
        if _swap(store, dataset, view, state):
            return Submitted(transition=transition, digest=state.head, body=state.body, repeated=False)
        _pause(attempt)
        view = find_gate(store, dataset, before=view)
    raise UnavailableError(ErrorCode.STORE_CONTENTION, "too many others move this gate; run the same command again")


def _decided(judge: Judge, view: GateView | None) -> Accept:
    verdict = judge.verdict(view)
    if isinstance(verdict, Refuse):
        raise as_error(verdict)
    return verdict


def _policy_text(store: Store, view: GateView | None, accept: Accept) -> str:
    """The policy of the next body: nearly always that of this one, which the state holds."""
    if view is not None and view.body.policy == accept.body.policy:
        return view.state.policy
    return get(store, accept.body.policy).decode()


def _next_state(
    view: GateView | None,
    dataset: str,
    request: Request,
    accept: Accept,
    policy: str,
    operation: Operation,
    signers: Sequence[Signer],
    recorded_at: str,
) -> tuple[GateState, Transition]:
    transition = Transition(
        gate_id=accept.body.gate_id,
        dataset=dataset,
        sequence=accept.body.sequence,
        parent=None if view is None else view.state.head,
        operation_id=operation.operation_id,
        request=request,
        request_digest=operation.request_digest,
        role=accept.role,
        attestations=accept.attestations,
        effects=accept.effects,
        body=digest_of(json.encode(accept.body)),
        recorded_at=recorded_at,
    )
    envelope = seal(json.encode(transition), TRANSITION_PAYLOAD, signers).decode()
    return GateState(body=accept.body, head=digest_of(envelope.encode()), envelope=envelope, policy=policy), transition


def _swap(store: Store, dataset: str, view: GateView | None, state: GateState) -> bool:
    """Store the envelope, then swap; False when somebody else's swap came first."""
    put(store, state.envelope.encode(), ENVELOPE_JSON)
    outcome = store.swap(gate_key(dataset), json.encode(state), None if view is None else view.token)
    match outcome:
        case Written():
            return True
        case Lost():
            return False
        case Unknown(reason=reason):
            raise OutcomeUnknownError(
                ErrorCode.OUTCOME_SWAP,
                "it is not known whether the gate moved; run the same command again",
                reason=reason,
            )


def _pause(attempt: int) -> None:
    """Full jitter, doubling; no pause after the first loss, which is most often the last."""
    if attempt:
        clock.sleep(clock.jitter() * min(_LONGEST_PAUSE, 0.005 * 2**attempt))
