"""The whole chain of transitions, walked and checked. Source: schemas/SPEC.md#gate-state.

Checked are the links by digest, the sequence, gate and dataset of each, and its signatures by the policy
of its time. What a copy of the log outside of the store adds is that nobody took the end away.
"""

from dataclasses import dataclass, replace

from shardrel.gate.ahead import read_ahead
from shardrel.gate.head import broken, check_signature, read_transition
from shardrel.gate.view import GateView
from shardrel.records.descriptor import Descriptor
from shardrel.records.policy import Policy
from shardrel.records.transition import Init, SetPolicy, Transition
from shardrel.store.objects import get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES
from shardrel.trust.keys import key_id
from shardrel.trust.policy import ROLE_NAMES, keys_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One transition and the envelope that holds it.

    Attributes:
        signers: Names of the keys that signed, by the policy of their time; empty where nobody looked.
    """

    transition: Transition
    digest: str
    envelope: bytes
    signers: tuple[str, ...] = ()


def walk(store: Store, view: GateView, *, down_to: int = 1) -> list[Link]:
    """Links from the head back to a sequence, newest first; each is vouched for by the one before it.

    Raises:
        IntegrityError: ``gate.history-broken``, and what reading an object raises.
        NotFoundError: ``storage.object-absent`` when a link is gone.
    """
    early = read_ahead(store, view.body.dataset, view.body.sequence) if down_to == 1 else {}
    links = [Link(transition=view.transition, digest=view.state.head, envelope=view.state.envelope.encode())]
    while links[-1].transition.sequence > down_to:
        parent = links[-1].transition.parent
        if parent is None:
            raise broken("the history ends before its beginning", sequence=links[-1].transition.sequence)
        envelope = early.pop(parent, None) or get_by_digest(store, parent, max_bytes=MAX_ENVELOPE_BYTES)
        link = Link(transition=read_transition(envelope), digest=parent, envelope=envelope)
        _check_step(links[-1].transition, link.transition)
        links.append(link)
    return links


def read_history(store: Store, view: GateView) -> list[Link]:
    """The chain from ``init`` to the head, oldest first, all signatures checked.

    The state holds the head's envelope too; its object is read all the same, as the next link will lead to it.

    Raises:
        IntegrityError: ``gate.history-broken``.
        NotFoundError: ``storage.object-absent``.
    """
    links = walk(store, view)[::-1]
    first = links[0].transition.request
    if not isinstance(first, Init) or links[0].transition.parent is not None:
        raise broken("the history does not begin with init")
    named, policy = first.policy, get_record(store, first.policy, Policy)
    checked = [_signed(links[0], policy)]
    for link in links[1:]:
        checked.append(_signed(link, policy))
        if isinstance(link.transition.request, SetPolicy):
            named, policy = _next_policy(store, link, named)
    if named != view.body.policy:
        raise broken("the history leads to another policy than the state")
    get_by_digest(store, view.state.head, max_bytes=MAX_ENVELOPE_BYTES)
    return checked


def _signed(link: Link, policy: Policy) -> Link:
    key_ids = check_signature(link.envelope, link.transition, policy)
    names = {key.name for key in keys_of(policy, ROLE_NAMES) if key_id(key) in key_ids}
    return replace(link, signers=tuple(sorted(names)))


def _next_policy(store: Store, link: Link, named: Descriptor) -> tuple[Descriptor, Policy]:
    request = link.transition.request
    if not isinstance(request, SetPolicy) or request.previous != named:
        raise broken("a policy was replaced that did not hold", sequence=link.transition.sequence)
    policy = get_record(store, request.policy, Policy)
    check_signature(link.envelope, link.transition, policy)
    return request.policy, policy


def _check_step(newer: Transition, older: Transition) -> None:
    same_gate = (newer.gate_id, newer.dataset) == (older.gate_id, older.dataset)
    if not same_gate or newer.sequence != older.sequence + 1 or isinstance(newer.request, Init):
        raise broken("a link does not follow the one before it", sequence=newer.sequence)
