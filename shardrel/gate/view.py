"""A gate as it was read: state, token and policy, with the head's signature checked."""

from dataclasses import dataclass
from itertools import islice

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, NotFoundError, ShardrelError
from shardrel.gate.head import broken, check_head, read_transition
from shardrel.records.gate import GateBody, GateState
from shardrel.records.policy import Policy
from shardrel.records.transition import SetPolicy, Transition
from shardrel.store.layout import gate_dataset, gate_key
from shardrel.store.objects import get_record
from shardrel.store.port import Store, Token

_LISTED = 10_000
_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One moment of a gate; ``token`` lets a swap follow exactly this state."""

    state: GateState
    token: Token
    policy: Policy
    transition: Transition

    @property
    def body(self) -> GateBody:
        """Everything but the head."""
        return self.state.body


def read_gate(store: Store, dataset: str) -> GateView:
    """Read the gate and check who made its state.

    One read, which has the policy with it; a second where the head replaced the policy.

    Raises:
        NotFoundError: ``gate.absent``.
        IntegrityError: ``gate.history-broken`` when the head's envelope did not make this state or is
            not signed by keys that may; and what reading an object raises.

    Source: schemas/SPEC.md#gate-state.
    """
    view = find_gate(store, dataset)
    if view is None:
        raise _absent(store, dataset)
    return view


def datasets_of(store: Store) -> list[str]:
    """Datasets that have a gate in the store, by a listing: for words to people alone, and of a first part of it."""
    keys = islice(store.list("gates/"), _LISTED)
    return sorted({name for key in keys if (name := gate_dataset(key))})


def _absent(store: Store, dataset: str) -> NotFoundError:
    """Whoever looks in the wrong store, or for a misspelt dataset, should not make another gate for it."""
    try:
        others = datasets_of(store)
    except ShardrelError:
        others = []
    message = f"there is no gate in {store.url}; name another store with --store, or make a gate: shardrel init"
    if others:
        named = ", ".join(others[:_NAMED]) + (" and others" if len(others) > _NAMED else "")
        message = (
            f"{store.url} has no gate of {dataset}, but of {named}; name one with --dataset, or make one: shardrel init"
        )
    return NotFoundError(ErrorCode.GATE_ABSENT, message, dataset=dataset, store=store.url, datasets=others)


def find_gate(store: Store, dataset: str, *, before: GateView | None = None) -> GateView | None:
    """Like ``read_gate``; None where there is no gate.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        before: An earlier view, whose policy is not decoded again while it stands: its digest names it.
    """
    stored = store.read(gate_key(dataset), max_bytes=json.MAX_RECORD_BYTES)
    if stored is None:
        return None
    state = json.decode(stored.data, GateState)
    policy = _policy(state, before)
    request = read_transition(state.envelope.encode()).request
    previous = get_record(store, request.previous, Policy) if isinstance(request, SetPolicy) else None
    transition = check_head(state, dataset, policy, previous)
    return GateView(state=state, token=stored.token, policy=policy, transition=transition)


def _policy(state: GateState, before: GateView | None) -> Policy:
    """The policy that the body names; the text beside it counts only where it is that one."""
    if before is not None and (before.body.policy, before.state.policy) == (state.body.policy, state.policy):
        return before.policy
    data = state.policy.encode()
    if digest_of(data) != state.body.policy.digest:
        raise broken("the state holds another policy than it names", sequence=state.body.sequence)
    return json.decode(data, Policy)
