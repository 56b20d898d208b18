"""A root that a person named for a verb that needs no gate, but asks one where it is there."""

from typing import TYPE_CHECKING

from shardrel.cli.access import is_prefix, the_root
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.digest import Digest

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
    return the_root(text, [] if view is None else list(view.body.candidates)), view
