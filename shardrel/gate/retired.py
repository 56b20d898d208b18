"""Roots that retention let go of, as the history names them: for words to people alone. Source: schemas/SPEC.md#retention"""

from dataclasses import dataclass

from shardrel.errors import FormatError, IntegrityError, NotFoundError
from shardrel.gate.history import walk
from shardrel.gate.view import GateView
from shardrel.records.transition import Retire
from shardrel.store.port import Store

_LOOKED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredRoot:
    """A root that left the state, and the transition in which it did last."""

    root: str
    sequence: int


def retired_root(store: Store, view: GateView, beginning: str) -> RetiredRoot | None:
    """The root with this digest, or this beginning of one, that retention let go of; None where none is known.

    A read a transition, of the newest 10,000.

    Raises:
        UnavailableError: The store does not answer.
    """
    try:
        links = walk(store, view, down_to=max(1, view.body.sequence - _LOOKED))
    except (NotFoundError, IntegrityError, FormatError):
        return None
    for link in links:
        request = link.transition.request
        roots = request.roots if isinstance(request, Retire) else ()
        found = next((root for root in roots if root.startswith(beginning)), None)
        if found is not None:
            return RetiredRoot(root=found, sequence=link.transition.sequence)
    return None
