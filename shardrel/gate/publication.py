"""begin and end of a publication: the pin of what is being written. Source: schemas/SPEC.md#transitions."""

from shardrel.digest import parse_digest
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.call import Call, perform
from shardrel.gate.facts import Evidence
from shardrel.gate.view import GateView, read_gate
from shardrel.records.transition import BeginPublication, EndPublication
from shardrel.store.layout import check_name
from shardrel.store.port import Store

_NO_EVIDENCE = Evidence(signers=frozenset())


def begin_publication(store: Store, dataset: str, publication: str, snapshot: str, call: Call) -> bool:
    """Pin a snapshot before the first byte is written; one that is pinned already stays so.

    Args:
        store: Where the gate is.
        dataset: Whose gate.
        publication: Name of the attempt; the same for a resumed one.
        snapshot: What it publishes.
        call: Who asks; a publisher or a releaser signs.

    Returns:
        Whether it was open before, which is a publication that goes on.

    Raises:
        RefusedError: ``gate.publication-exists`` when the name is open for another snapshot.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``; nothing for one that goes on.
    """
    view = read_gate(store, dataset)
    request = BeginPublication(publication=check_name(publication, "publication"), snapshot=parse_digest(snapshot))
    if _is_open(view, request):
        return True
    try:
        return perform(store, dataset, request, call, lambda _: _NO_EVIDENCE, view=view).repeated
    except RefusedError as err:
        if err.code == ErrorCode.GATE_PUBLICATION_EXISTS and _is_open(read_gate(store, dataset), request):
            return True
        raise


def end_publication(store: Store, dataset: str, publication: str, root: str | None, call: Call) -> str | None:
    """Name the staged root, or None when it was given up, and drop the pin.

    Returns:
        The candidate's state: STAGED for a new root, or the state of one that the gate knew.

    Raises:
        NotFoundError: ``gate.no-such-publication`` when it was not open and the root is not known.
        ShardrelError: As ``register.submit``.

    Effects: as ``register.submit``; nothing where an earlier try ended it.
    """
    view = read_gate(store, dataset)
    if publication not in view.body.publications and root is not None and root in view.body.candidates:
        return view.body.candidates[root].state
    request = EndPublication(
        publication=check_name(publication, "publication"), root=None if root is None else parse_digest(root)
    )
    done = perform(store, dataset, request, call, lambda _: _NO_EVIDENCE, view=view)
    return None if root is None else done.body.candidates[root].state


def _is_open(view: GateView, request: BeginPublication) -> bool:
    pin = view.body.publications.get(request.publication)
    return pin is not None and pin.snapshot == request.snapshot
