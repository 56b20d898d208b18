"""What a change of policy takes away: words of keys that leave. Source: schemas/SPEC.md#policy.

Only keys of the policy that holds count. So before one leaves, people want to know which roots rest on it, and
what has to be said again by whom.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from shardrel.gate.eligibility import Eligible, approved, eligible
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence
from shardrel.gate.view import GateView
from shardrel.records.gate import GateBody
from shardrel.records.policy import Policy
from shardrel.store.port import Store
from shardrel.trust.policy import RoleName, is_met, role_of

_SAYING: tuple[RoleName, ...] = ("publisher", "verifier", "approver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restate:
    """A root that loses something, and the verbs that give it back, in their order.

    Attributes:
        used_by: Aliases and open runs, as ``alias:prod`` and ``run:first``; neither stops before its next step.
        verbs: ``publish`` (the same snapshot and parameters: only the provenance is made anew), ``verify``, ``approve``.
    """

    root: str
    used_by: tuple[str, ...]
    verbs: tuple[str, ...]


def restated(store: Store, view: GateView, new: Policy) -> list[Restate]:
    """Roots that are usable under the policy of now in some respect, and would no longer be under a new one.

    Nothing is read where no key leaves that says something about roots; else what is attached to each candidate,
    twice.

    Raises:
        ShardrelError: As ``evidence.gather``.
    """
    if all(_says_at_least(role, view.policy, new) for role in _SAYING):
        return []
    standing = (root for root, candidate in view.body.candidates.items() if candidate.state != "INVALID")
    found = (_restate(store, view, new, root) for root in sorted(standing))
    return [one for one in found if one.verbs]


def _says_at_least(role: RoleName, old: Policy, new: Policy) -> bool:
    """Whether whatever met the role before meets it still."""
    before, after = role_of(old, role), role_of(new, role)
    return set(before.keys) <= set(after.keys) and after.threshold <= before.threshold


def _restate(store: Store, view: GateView, new: Policy, root: str) -> Restate:
    before, after = gather(store, root, view.policy), gather(store, root, new)
    body = view.body
    lost = {
        "publish": _vouched(before, view.policy) and not _vouched(after, new),
        "verify": _verified(body, root, before, view.policy) and not _verified(body, root, after, new),
        "approve": approved(body, root, before, view.policy) and not approved(body, root, after, new),
    }
    return Restate(
        root=root, used_by=tuple(_users(body, root)), verbs=tuple(verb for verb, gone in lost.items() if gone)
    )


def _vouched(evidence: Evidence, policy: Policy) -> bool:
    keys = frozenset(key for seen in evidence.provenance for key in seen.key_ids)
    return is_met(policy.roles.publisher, keys)


def _verified(body: GateBody, root: str, evidence: Evidence, policy: Policy) -> bool:
    return isinstance(eligible(body, root, evidence, policy, ask_approvals=False), Eligible)


def _users(body: GateBody, root: str) -> Iterable[str]:
    yield from (f"alias:{name}" for name, alias in sorted(body.aliases.items()) if alias.root == root)
    yield from (f"run:{name}" for name, run in sorted(body.runs.items()) if root in run.roots)
