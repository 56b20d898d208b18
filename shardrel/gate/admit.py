"""admit: the pointer flip. Source: schemas/SPEC.md#transitions."""

from dataclasses import dataclass

from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, InternalError
from shardrel.gate.call import Call, perform
from shardrel.gate.evidence import gather
from shardrel.gate.facts import Evidence
from shardrel.gate.register import Submitted
from shardrel.gate.view import GateView
from shardrel.records.gate import Alias
from shardrel.records.transition import Admit, Assume, Rollback
from shardrel.store.layout import check_name
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Where the alias points, by this operation.

    Attributes:
        now: Where it stands now, when an earlier try of this operation had landed and somebody moved it on
            since; a repeat has no second effect, so it is left there.
    """

    alias: str
    root: str
    generation: int
    permit: str
    transition: str
    operation_id: str
    repeated: bool
    now: Alias | None


def admit(
    store: Store,
    dataset: str,
    root: str,
    alias: str,
    call: Call,
    *,
    expect_generation: int | None = None,
    view: GateView | None = None,
) -> Moved:
    """Move an alias to a verified and approved root.

    Store requests: state, policy, listing, one an envelope of the root, intent, transition, swap.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        root: Digest of the root.
        alias: The name to move.
        call: Who asks; a releaser signs.
        expect_generation: The alias's generation of now (0 for a new one); None assumes nothing.
        view: The gate as the caller has just read it, to save reading it again.

    Raises:
        RefusedError, NotFoundError, ConflictError, TrustError: the rule's refusal; see SPEC #transitions.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``.
    """
    assume = Assume(generation=expect_generation)
    request = Admit(assume=assume, alias=check_name(alias, "alias"), root=parse_digest(root))
    return move(store, dataset, request, call, view)


def move(store: Store, dataset: str, request: Admit | Rollback, call: Call, view: GateView | None) -> Moved:
    """Submit a move of an alias with the evidence that is attached to its root."""

    def about_root(view: GateView | None) -> Evidence:
        return Evidence(signers=frozenset()) if view is None else gather(store, request.root, view.policy)

    return _answer(request, perform(store, dataset, request, call, about_root, view=view))


def _answer(request: Admit | Rollback, done: Submitted) -> Moved:
    effects = done.transition.effects
    if effects.generation is None or effects.opened_permit is None:
        raise InternalError(ErrorCode.INTERNAL, "a move of an alias opens a permit at a generation")
    at = done.body.aliases.get(request.alias)
    return Moved(
        alias=request.alias,
        root=request.root,
        generation=effects.generation,
        permit=effects.opened_permit,
        transition=done.digest,
        operation_id=done.transition.operation_id,
        repeated=done.repeated,
        now=at if at is not None and at.generation != effects.generation else None,
    )
