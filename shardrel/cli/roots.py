"""A root that a person named for a verb that needs no gate, but asks one where it is there."""

from typing import TYPE_CHECKING

from shardrel.cli.access import is_prefix, the_root
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.digest import Digest
from shardrel.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.store.port import Store


def root_and_gate(settings: Settings, store: "Store", text: str) -> "tuple[Digest, GateView | None]":
    """The root, and the gate if there is one; a prefix means nothing without.

    Raises:
        InvalidInputError: ``input.invalid``.
        NotFoundError: ``gate.absent`` for a prefix where there is no gate, ``gate.unknown-root``.
    """
    from shardrel.gate.view import find_gate

    view = the_gate(settings, store) if is_prefix(text) else find_gate(store, settings.dataset)
    return (the_root(text, []) if view is None else known_root(store, view, text)), view


def known_root(store: "Store", view: "GateView", text: str) -> Digest:
    """A root that the gate knows, or by its whole digest any other.

    Raises:
        InvalidInputError: ``input.invalid``.
        NotFoundError: ``gate.unknown-root``, of one that retention let go of with the transition.
    """
    try:
        return the_root(text, list(view.body.candidates))
    except NotFoundError as err:
        raise let_go(store, view, text) or err from None


def let_go(store: "Store", view: "GateView", text: str) -> NotFoundError | None:
    """What to say of a root, or the beginning of one, whose objects retention deleted; None of any other."""
    from shardrel.gate.retired import retired_root

    found = retired_root(store, view, f"sha256:{text.removeprefix('sha256:')}")
    if found is None:
        return None
    return NotFoundError(
        ErrorCode.GATE_UNKNOWN_ROOT,
        f"gc let go of this root in transition {found.sequence}, so its objects may be gone; what is to be shown of a root"
        " has to be made before (shardrel prove, report)",
        root=found.root,
        sequence=found.sequence,
    )
