"""revoke: a root becomes INVALID. Source: schemas/SPEC.md#transitions."""

from dataclasses import dataclass

from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.gate.call import Call, perform
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence
from shardrel.gate.view import GateView
from shardrel.records.fields import REASON_PATTERN, REASON_RULE
from shardrel.records.transition import Revoke
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """What the revocation did."""

    root: str
    state: str
    closed_permits: tuple[str, ...]
    operation_id: str
    repeated: bool


def revoke(store: Store, dataset: str, root: str, reason: str, call: Call, *, report: str | None = None) -> Revoked:
    """Make a root INVALID and close its permits; only a later full PASSED report and fresh approvals lift it.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        root: Digest of the root.
        reason: A reason code: lower-case words, digits, dots and dashes.
        call: Who asks; a governor signs.
        report: Envelope digest of a FAILED report that is the ground, where there is one.

    Raises:
        InvalidInputError: ``input.invalid`` for a reason that is not a code.
        NotFoundError: ``gate.unknown-root``.
        TrustError: ``trust.subject-mismatch`` when the report is not a trusted FAILED one about this root.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """
    if not REASON_PATTERN.fullmatch(reason):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, REASON_RULE)
    request = Revoke(root=parse_digest(root), reason=reason, report=None if report is None else parse_digest(report))

    def ground(view: GateView | None) -> Evidence:
        if view is None or report is None:
            return Evidence(signers=frozenset())
        return gather(store, request.root, view.policy)

    done = perform(store, dataset, request, call, ground)
    now = done.body.candidates.get(request.root)
    if done.repeated and call.operation_id is None and now is not None and now.state != "INVALID":
        # An earlier revocation, unanswered and lifted since, answers for no later one.
        done = perform(store, dataset, request, call, ground)
    return Revoked(
        root=root,
        state="INVALID",
        closed_permits=done.transition.effects.closed_permits,
        operation_id=done.transition.operation_id,
        repeated=done.repeated,
    )
