"""The outside anchor: the gate's history as a log whose signed checkpoints are kept elsewhere.

What the store shows later has to extend every checkpoint that left it, so whoever puts an older state back, or
another history in its place, is found out by anybody who kept one. Source: schemas/SPEC.md#anchor
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardrel.errors import ErrorCode, IntegrityError, RefusedError, TrustError
from shardrel.gate.history import Link
from shardrel.gate.view import GateView
from shardrel.records.policy import Policy, PublicKey
from shardrel.records.transition import Init, SetPolicy
from shardrel.store.objects import get_record
from shardrel.store.port import Store
from shardrel.trust.checkpoint import Step, first_break, make_step, read_steps
from shardrel.trust.keys import key_id
from shardrel.trust.note import signed_by
from shardrel.trust.policy import is_met
from shardrel.trust.signer import Signer
from shardrel.trust.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """An export after it was checked, and gone on with.

    Attributes:
        text: The whole of it.
        size: Transitions under its newest checkpoint.
        root: Root hash over them, in hex.
        checkpoints: How many there are.
        added: Whether this call added one.
    """

    origin: str
    text: str
    size: int
    root: str
    checkpoints: int
    added: bool


def origin_of(view: GateView) -> str:
    """Name of the log of a gate."""
    return f"shardrel.dev/gate/{view.body.dataset}/{view.body.gate_id}"


def must_extend(store: Store, view: GateView, links: Sequence[Link], kept: str) -> Anchored:
    """Check that a history extends every checkpoint of an export that was kept elsewhere.

    Args:
        store: Where policies of before are read.
        view: The gate.
        links: Its whole history, checked.
        kept: The export.

    Raises:
        InvalidInputError: ``input.invalid`` when it is no export.
        RefusedError: ``gate.wrong-gate`` when it is one of another gate.
        IntegrityError: ``gate.history-broken`` when the history is shorter, or another one.
        TrustError: ``trust.bad-signature`` when the governors of the time did not sign a checkpoint.
    """
    steps = read_steps(kept)
    tree = Tree(link.envelope for link in links)
    _check(steps, tree, origin_of(view))
    policies = dict(_policies(store, links, {step.checkpoint.size for step in steps}))
    for step in steps:
        _check_signatures(step, policies.get(step.checkpoint.size))
    return _anchored(view, kept, added=False)


def extend(
    store: Store, view: GateView, links: Sequence[Link], kept: str | None, signers: Sequence[Signer]
) -> Anchored:
    """Begin an export, or go on with one after it was checked; where nothing happened since, it stays as it is.

    Raises:
        TrustError: ``trust.threshold-not-met`` when too few governors sign; and as ``must_extend``.
        ShardrelError: As ``must_extend``, and what signing raises.
    """
    before = None if kept is None else must_extend(store, view, links, kept)
    if before is not None and before.size == len(links):
        return before
    if not is_met(view.policy.roles.governor, frozenset(key_id(signer.public) for signer in signers)):
        raise TrustError(ErrorCode.TRUST_THRESHOLD, "the governors of the policy have to sign a checkpoint")
    tree = Tree(link.envelope for link in links)
    step = make_step(tree, origin_of(view), 0 if before is None else before.size, signers)
    return _anchored(view, (kept or "") + step, added=True)


def governors(view: GateView) -> tuple[PublicKey, ...]:
    """Keys that sign checkpoints now."""
    return view.policy.roles.governor.keys


def _check(steps: Sequence[Step], tree: Tree, origin: str) -> None:
    foreign = next((step.checkpoint.origin for step in steps if step.checkpoint.origin != origin), None)
    if foreign is not None:
        raise RefusedError(ErrorCode.GATE_WRONG, "the export is one of another gate", origin=foreign, expected=origin)
    broken = first_break(steps)
    if broken is not None:
        raise _broken("the export itself holds two histories", broken, tree)
    for step in steps:
        size = step.checkpoint.size
        if size > tree.size:
            raise _broken(
                "the history ends before a checkpoint that left it; somebody put an older one back", size, tree
            )
        if tree.root(size) != step.checkpoint.root:
            raise _broken("the history is another than a checkpoint was made of", size, tree)


def _check_signatures(step: Step, policy: Policy | None) -> None:
    size = step.checkpoint.size
    role = None if policy is None else policy.roles.governor
    if role is None or not is_met(role, signed_by(step.note, step.checkpoint.origin, role.keys)):
        raise TrustError(
            ErrorCode.TRUST_SIGNATURE, "the governors of its time did not sign a checkpoint of the export", size=size
        )


def _policies(store: Store, links: Sequence[Link], sizes: set[int]) -> Iterator[tuple[int, Policy]]:
    """The policy that held after so many transitions."""
    policy: Policy | None = None
    for size, link in enumerate(links, start=1):
        request = link.transition.request
        if isinstance(request, Init | SetPolicy):
            policy = get_record(store, request.policy, Policy)
        if size in sizes and policy is not None:
            yield size, policy


def _anchored(view: GateView, text: str, *, added: bool) -> Anchored:
    steps = read_steps(text)
    newest = steps[-1].checkpoint
    return Anchored(
        origin=origin_of(view),
        text=text,
        size=newest.size,
        root=newest.root.hex(),
        checkpoints=len(steps),
        added=added,
    )


def _broken(message: str, kept: int, tree: Tree) -> IntegrityError:
    return IntegrityError(ErrorCode.GATE_HISTORY, message, kept=kept, now=tree.size)
