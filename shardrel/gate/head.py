"""The head's envelope: the signature behind a gate state. Pure. Source: schemas/SPEC.md#gate-state."""

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError, IntegrityError, TrustError
from shardrel.gate.transitions.roles import roles_for, signing_role
from shardrel.records.gate import GateState
from shardrel.records.policy import Policy
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.records.transition import Init, SetPolicy, Transition
from shardrel.trust.envelope import peek, unseal
from shardrel.trust.policy import keys_of


def read_transition(envelope: bytes) -> Transition:
    """The transition in an envelope; no signature is checked.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    try:
        return json.decode(peek(envelope, TRANSITION_PAYLOAD), Transition)
    except (FormatError, TrustError) as err:
        raise broken("a link of the history is not a transition") from err


def check_signature(envelope: bytes, transition: Transition, policy: Policy) -> frozenset[str]:
    """Check that enough keys signed to whom the policy allows this kind of transition, in the role it names.

    Returns:
        Ids of the keys that signed, of those that may.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    request = transition.request
    try:
        opened = unseal(envelope, TRANSITION_PAYLOAD, keys_of(policy, roles_for(request)))
    except (FormatError, TrustError) as err:
        raise broken("a transition is not signed by a key that may make it", sequence=transition.sequence) from err
    if signing_role(request, policy, opened.key_ids) != transition.role:
        raise broken("a transition is not signed by enough keys of its role", sequence=transition.sequence)
    return opened.key_ids


def check_head(state: GateState, dataset: str, policy: Policy, previous: Policy | None) -> Transition:
    """Check that the state's envelope made exactly this body, by keys that may do so.

    Args:
        state: As read.
        dataset: Whose gate was asked for.
        policy: The body's.
        previous: Where the head replaced the policy, the one before: its governors signed too.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    body, envelope = state.body, state.envelope.encode()
    if digest_of(envelope) != state.head:
        raise broken("the head names another envelope", sequence=body.sequence)
    transition = read_transition(envelope)
    made = (transition.gate_id, transition.dataset, transition.sequence, transition.body)
    if made != (body.gate_id, dataset, body.sequence, digest_of(json.encode(body))) or body.dataset != dataset:
        raise broken("the head's envelope did not make this state", sequence=body.sequence)
    named = transition.request.policy if isinstance(transition.request, Init | SetPolicy) else body.policy
    if named != body.policy:
        raise broken("the head names another policy than the state", sequence=body.sequence)
    check_signature(envelope, transition, policy)
    if isinstance(transition.request, SetPolicy):
        if previous is None:
            raise broken("the policy before is not known", sequence=body.sequence)
        check_signature(envelope, transition, previous)
    return transition


def broken(message: str, **context: int | str) -> IntegrityError:
    """The history does not hold together: stop, and compare with an outside copy of the log."""
    return IntegrityError(ErrorCode.GATE_HISTORY, message, **context)
