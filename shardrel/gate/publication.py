"""begin and end of a publication: the pin of what is being written. Source: schemas/SPEC.md#transitions."""

from dataclasses import dataclass

from msgspec.structs import replace

from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, NotFoundError, RefusedError
from shardrel.gate.call import Call, perform
from shardrel.gate.closure import root_closure
from shardrel.gate.condemned import cleared
from shardrel.gate.facts import Evidence
from shardrel.gate.view import GateView, read_gate
from shardrel.records.transition import BeginPublication, EndPublication
from shardrel.store.layout import check_name
from shardrel.store.port import Store

_NO_EVIDENCE = Evidence(signers=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """An open publication.

    Attributes:
        sequence: At which its pin began; one of the same name that began later is another.
        resumed: Whether it was open before.
    """

    sequence: int
    resumed: bool


def begin_publication(store: Store, dataset: str, publication: str, snapshot: str, call: Call) -> Pinned:
    """Pin a snapshot before the first byte is written; one that is pinned already stays so.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        publication: Name of the attempt; the same for a resumed one.
        snapshot: What it publishes.
        call: Who asks; a publisher or a releaser signs.

    Returns:
        The pin.

    Raises:
        RefusedError: ``gate.publication-exists`` when the name is open for another snapshot,
            ``retention.sweep-open``.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``; nothing for one that goes on.
    """
    view = read_gate(store, dataset)
    request = BeginPublication(publication=check_name(publication, "publication"), snapshot=parse_digest(snapshot))
    pinned = _open(view, request)
    if pinned is not None:
        return pinned
    try:
        done = perform(store, dataset, request, call, lambda _: _NO_EVIDENCE, view=view)
    except RefusedError as err:
        pinned = _open(read_gate(store, dataset), request)
        if err.code == ErrorCode.GATE_PUBLICATION_EXISTS and pinned is not None:
            return pinned
        raise
    return Pinned(sequence=done.transition.sequence, resumed=done.repeated)


def end_publication(
    store: Store, dataset: str, publication: str, root: str | None, call: Call, *, pin: int | None = None
) -> str | None:
    """Name the staged root, or None when it was given up, and drop the pin.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        publication: Its name.
        root: What it published.
        call: Who asks; a publisher or a releaser signs.
        pin: Where its pin began. What was written under a pin that retention dropped may be gone, also where another
            publication of the same name began since.

    Returns:
        The candidate's state: STAGED for a new root, or the state of one that the gate knew.

    Raises:
        NotFoundError: ``gate.no-such-publication`` when it was not open, or is another one, and the root is not known.
        RefusedError: ``retention.swept`` when gc condemned an object of the release since the pin began, which is
            dropped: publish again.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``; nothing where an earlier try ended it.
    """
    view = read_gate(store, dataset)
    request = EndPublication(
        publication=check_name(publication, "publication"),
        root=None if root is None else parse_digest(root),
        pin=pin,
    )
    if state := _ended(view, request):
        return state
    try:
        done = perform(store, dataset, request, call, lambda now: _untouched(store, request, now), view=view)
    except NotFoundError:
        if state := _ended(read_gate(store, dataset), request):
            return state
        raise
    except RefusedError as err:
        if err.code == ErrorCode.RETENTION_SWEPT:
            # What another run writes is written under a pin of its own.
            perform(store, dataset, replace(request, root=None), call, lambda _: _NO_EVIDENCE)
        raise
    return None if root is None else done.body.candidates[root].state


def _ended(view: GateView, request: EndPublication) -> str | None:
    """The root's state where another run of this publication came first; None where this one has yet to end it.

    A root that the gate knows was ended under the pin that its objects were written under, and is retained since.
    """
    candidate = None if request.root is None else view.body.candidates.get(request.root)
    pin = view.body.publications.get(request.publication)
    ours = pin is not None and request.pin in (None, pin.sequence)
    return None if candidate is None or ours else candidate.state


def _untouched(store: Store, request: EndPublication, view: GateView | None) -> Evidence:
    """Up to which boundary nothing of the release was condemned since the pin began."""
    pin = None if view is None else view.body.publications.get(request.publication)
    if view is None or pin is None or request.root is None:
        return _NO_EVIDENCE
    root = request.root
    found = cleared(store, view.body.retention, pin.sequence, lambda: root_closure(store, root))
    return Evidence(signers=frozenset(), cleared=found)


def _open(view: GateView, request: BeginPublication) -> Pinned | None:
    pin = view.body.publications.get(request.publication)
    if pin is None or pin.snapshot != request.snapshot:
        return None
    return Pinned(sequence=pin.sequence, resumed=True)
