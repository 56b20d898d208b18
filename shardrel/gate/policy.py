"""set-policy: who may say what from now on. Source: schemas/SPEC.md#policy."""

from dataclasses import dataclass

import msgspec

from shardrel.gate.call import Call
from shardrel.gate.facts import Evidence
from shardrel.gate.operations import find_done, find_intent
from shardrel.gate.pending import operation
from shardrel.gate.register import submit
from shardrel.gate.view import read_gate
from shardrel.records.descriptor import Descriptor
from shardrel.records.policy import Policy
from shardrel.records.transition import SetPolicy
from shardrel.store.objects import put_record, unversioned
from shardrel.store.port import Store
from shardrel.trust.policy import validate


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """The policy that holds, and whether this call changed it."""

    policy: str
    changed: bool


def set_policy(
    store: Store, dataset: str, policy: Policy, call: Call, *, previous: Descriptor | None = None
) -> PolicySet:
    """Replace the policy; the policy that holds already is left as it is.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        policy: The new one.
        call: Who asks; the governors of the old policy and those of the new one sign together.
        previous: The policy that the new one was made of; None takes the one that holds, whatever it is.

    Raises:
        InvalidInputError: ``input.policy``, ``input.key``.
        TrustError: ``trust.role``, ``trust.threshold-not-met``.
        ConflictError: ``gate.assumption-false`` where another policy holds than the new one was made of.
        ShardrelError: As ``register.submit``.

    Effects: creates the policy's object, then as ``register.submit``.
    """
    new = unversioned(put_record(store, validate(policy)))
    subject = [store.url, dataset, "set-policy", msgspec.to_builtins(new)]
    with operation(call.pending, subject, call.operation_id) as operation_id:
        view = read_gate(store, dataset)
        intent = find_intent(store, dataset, operation_id)
        if intent is not None and find_done(store, view, intent) is not None:
            return PolicySet(policy=new.digest, changed=True)
        if view.body.policy == new:
            return PolicySet(policy=new.digest, changed=False)
        evidence = Evidence(signers=frozenset(), policy=policy)
        submit(
            store,
            dataset,
            SetPolicy(policy=new, previous=previous or view.body.policy),
            operation_id=operation_id,
            signers=call.signers,
            gather=lambda _: evidence,
            recorded_at=call.recorded_at,
            view=view,
        )
    return PolicySet(policy=new.digest, changed=True)
