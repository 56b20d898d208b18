"""init: the first transition of a gate. Source: schemas/SPEC.md#transitions."""

from dataclasses import dataclass

import msgspec

from shardrel.digest import Domain, domain_hash, lp
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.call import Call
from shardrel.gate.facts import Evidence
from shardrel.gate.pending import forget, operation
from shardrel.gate.register import submit
from shardrel.gate.view import GateView, find_gate
from shardrel.records.gate import GateBody
from shardrel.records.policy import Policy
from shardrel.records.transition import Init
from shardrel.store.objects import put_record, unversioned
from shardrel.store.port import Store
from shardrel.trust.policy import validate


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialised:
    """The gate that is there now, and whether it was there before."""

    dataset: str
    gate_id: str
    policy: str
    already: bool


def init(store: Store, dataset: str, policy: Policy, call: Call) -> Initialised:
    """Create the gate of a dataset; again with the same policy is harmless.

    Raises:
        InvalidInputError: ``input.policy``, ``input.key``.
        RefusedError: ``gate.exists`` when there is a gate with another policy.
        ShardrelError: As ``register.submit``.

    Effects: creates the policy's object, then as ``register.submit``.
    """
    described = unversioned(put_record(store, validate(policy)))
    view = find_gate(store, dataset)
    subject = [store.url, dataset, "init", msgspec.to_builtins(described)]
    if view is not None:
        there = _already(view.body, described.digest)
        forget(call.pending, subject)
        return there
    with operation(call.pending, subject, call.operation_id) as operation_id:
        gate_id = domain_hash(Domain.ID, lp(b"gate"), lp(dataset.encode()), lp(operation_id.encode())).hex()[:32]
        evidence = Evidence(signers=frozenset(), policy=policy)
        request = Init(gate_id=gate_id, dataset=dataset, policy=described)
        try:
            done = submit(
                store,
                dataset,
                request,
                operation_id=operation_id,
                signers=call.signers,
                gather=lambda _: evidence,
                recorded_at=call.recorded_at,
            )
        except RefusedError as err:
            if err.code != ErrorCode.GATE_EXISTS:
                raise
            return _already(_there(store, dataset).body, described.digest)
    return Initialised(dataset=dataset, gate_id=gate_id, policy=done.body.policy.digest, already=done.repeated)


def _there(store: Store, dataset: str) -> GateView:
    view = find_gate(store, dataset)
    if view is None:
        raise RefusedError(ErrorCode.GATE_EXISTS, "the dataset had a gate a moment ago", dataset=dataset)
    return view


def _already(body: GateBody, policy: str) -> Initialised:
    if body.policy.digest != policy:
        raise RefusedError(
            ErrorCode.GATE_EXISTS,
            "the dataset has a gate with another policy; run: shardrel policy set FILE",
            gateId=body.gate_id,
            policy=body.policy.digest,
        )
    return Initialised(dataset=body.dataset, gate_id=body.gate_id, policy=policy, already=True)
