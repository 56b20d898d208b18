"""What retention lets go of, made durable before the first deletion. Pure. Source: schemas/SPEC.md#retention."""

from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Accept, Refuse, refuse, sweeping
from shardrel.records.gate import Candidate, GateBody, Retention, Sweep
from shardrel.records.transition import Effects, EndSweep, GateRole, Retire


def retire(body: GateBody, request: Retire, role: GateRole) -> Accept | Refuse:
    """Let go of what nothing pins, and condemn its objects."""
    if body.retention.sweep is not None:
        return sweeping(body.retention.sweep)
    if request.after != body.sequence - 1:
        return refuse(ErrorCode.GATE_ASSUMPTION, "the gate moved on since the plan was made", after=request.after)
    pin = _pinned(body, request)
    if pin is not None:
        return refuse(ErrorCode.RETENTION_PINNED, "what is pinned is not let go", pin=pin)
    boundary, sweep = body.retention.boundary, None
    if request.objects:
        boundary, sweep = body.sequence, Sweep(owner=request.owner)
    publications = {name: pin for name, pin in body.publications.items() if name not in request.publications}
    retired = replace(
        body,
        candidates=_without(body, request.roots),
        publications=publications,
        retention=Retention(boundary=boundary, plan=request.plan, sweep=sweep),
    )
    return Accept(body=retired, effects=Effects(), role=role)


def end_sweep(body: GateBody, request: EndSweep, role: GateRole) -> Accept | Refuse:
    """Open the way for publications again."""
    retention = body.retention
    if retention.sweep is None or retention.boundary != request.boundary:
        return refuse(ErrorCode.GATE_ASSUMPTION, "no sweep of this boundary is open", boundary=retention.boundary)
    # What was said of a revoked root while its objects were being deleted lifts nothing.
    candidates = {
        root: replace(candidate, sequence=body.sequence) if candidate.sequence == request.boundary else candidate
        for root, candidate in body.candidates.items()
    }
    ended = replace(body, candidates=candidates, retention=replace(retention, sweep=None))
    return Accept(body=ended, effects=Effects(), role=role)


def _without(body: GateBody, roots: tuple[str, ...]) -> dict[str, Candidate]:
    """The candidates less these; a revocation is remembered, and lifted only by what is said from now on."""
    left: dict[str, Candidate] = {}
    for root, candidate in body.candidates.items():
        if root not in roots:
            left[root] = candidate
        elif candidate.state == "INVALID":
            left[root] = replace(candidate, sequence=body.sequence)
    return left


def _pinned(body: GateBody, request: Retire) -> str | None:
    """The first pin that stands against the request."""
    used = {alias.root: f"alias:{name}" for name, alias in body.aliases.items()}
    used |= {root: f"run:{name}" for name, run in body.runs.items() for root in run.roots}
    for root in request.roots:
        if root in used:
            return used[root]
        if root not in body.candidates:
            return f"unknown:{root}"
    unknown = set(request.publications) - body.publications.keys()
    if unknown:
        return f"publication:{min(unknown)}"
    open_runs = body.runs.keys() & set(request.runs)
    return f"run:{min(open_runs)}" if open_runs else None
