"""Pins of unfinished publications, and how a root becomes known. Pure. Source: schemas/SPEC.md#transitions."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Evidence, Refuse, refuse, sweeping, swept
from shardrel.records.gate import Candidate, GateBody, Publication
from shardrel.records.transition import BeginPublication, Effects, EndPublication, GateRole


def begin(body: GateBody, request: BeginPublication, role: GateRole) -> Accept | Refuse:
    """Pin a snapshot before the first byte is written; not while objects that it may write are being deleted."""
    if body.retention.sweep is not None:
        return sweeping(body.retention.sweep)
    if request.publication in body.publications:
        return refuse(
            ErrorCode.GATE_PUBLICATION_EXISTS, "a publication of this name is open", publication=request.publication
        )
    pin = Publication(snapshot=request.snapshot, sequence=body.sequence)
    pinned = replace(body, publications={**body.publications, request.publication: pin})
    return Accept(body=pinned, effects=Effects(), role=role)


def end(body: GateBody, request: EndPublication, evidence: Evidence, role: GateRole) -> Accept | Refuse:
    """Drop the pin; the root, if there is one, becomes STAGED unless the gate knows it already.

    Not if retention condemned any of its objects since the pin began.
    """
    pin = body.publications.get(request.publication)
    if pin is None or request.pin not in (None, pin.sequence):
        return refuse(
            ErrorCode.GATE_NO_PUBLICATION, "no publication of this name is open", publication=request.publication
        )
    bad = None if request.root is None else swept(body, evidence)
    if bad is not None:
        return bad
    pins = {name: other for name, other in body.publications.items() if name != request.publication}
    ended = replace(body, publications=pins)
    if request.root is not None and request.root not in body.candidates:
        staged = Candidate(state="STAGED", sequence=body.sequence, reason=None)
        ended = replace(ended, candidates={**body.candidates, request.root: staged})
    return Accept(body=ended, effects=Effects(root=request.root), role=role)
