"""What must hold of a gate in every state and on every step, said without the rule's own code."""

from shardrel.records.gate import Candidate, GateBody
from tests.support.explorer import ViolationError
from tests.support.gate_world import World, ids


def _hold(true: bool, sentence: str) -> None:
    if not true:
        raise ViolationError(sentence)


def check_state(world: World) -> None:
    """Rules of one state."""
    body = world.body
    used = {alias.root for alias in body.aliases.values()} | {run.root for run in body.runs.values()}
    _hold(used <= body.candidates.keys(), "what is in use was let go of")
    for permit in body.permits.values():
        bound = (permit.tombstone_watermark, permit.benchmark_fence)
        _hold(bound == (world.fences[0][0], world.fences[1][0]), "a permit is open below a fence")
        _hold(body.candidates[permit.root].state != "INVALID", "a root that is INVALID has an open permit")
    held = {run.permit for run in body.runs.values()} - {None}
    named = {name for name, permit in body.permits.items() if permit.kind == "run"}
    _hold(held == named, "a run and its permit do not agree")
    for name, run in body.runs.items():
        _hold((run.permit is None) == (run.closed is not None), "a closed permit has no reason")
        subject = None if run.permit is None else body.permits[run.permit]
        _hold(subject is None or (subject.subject, subject.root) == (name, run.root), "a run holds another's permit")
    _hold(len(set(world.started)) == len(world.started), "a run id started twice")
    for slot in world.slots:
        _hold(slot is None or slot.effects <= 1, "one operation has two effects")


def check_step(before: World, name: str, after: World) -> None:
    """Rules of one step."""
    old, new = before.body, after.body
    _hold(new.sequence - old.sequence in (0, 1), "a sequence is left out")
    if new.sequence == old.sequence:
        _hold(new is old, "the body changed without a transition")
        return
    _check_fences(before, after)
    _check_aliases(before, after, name)
    _check_candidates(before, after, name)
    _check_runs(before, after)
    _check_retention(before, after, name)
    _hold(not (set(new.permits) - set(old.permits)) or _one_new_permit(old, new), "a permit was given twice")


def _check_retention(before: World, after: World, name: str) -> None:
    then, now = before.body.retention, after.body.retention
    _hold(now.boundary >= then.boundary, "the boundary went back")
    _hold(now.boundary == then.boundary or now.boundary == after.body.sequence, "the boundary is of another transition")
    _hold((now.boundary > then.boundary) <= (then.sweep is None and now.sweep is not None), "a sweep was overtaken")
    begun = after.body.publications.keys() - before.body.publications.keys()
    _hold(not begun or then.sweep is None, "a publication began while a sweep was open")
    lost = {
        root for root, one in before.body.candidates.items() if one.state == "INVALID"
    } - after.body.candidates.keys()
    _hold(not lost, "a revocation was forgotten")
    _hold(not name.startswith("stage ") or before.body.permits == after.body.permits, "staged entries closed a permit")


def _one_new_permit(old: GateBody, new: GateBody) -> bool:
    [name] = set(new.permits) - set(old.permits)
    return new.permits[name].sequence == new.sequence


def _check_fences(before: World, after: World) -> None:
    moved = [now[0] - then[0] for then, now in zip(before.fences, after.fences, strict=True)]
    replaced = [
        then for then, now in zip(before.fences, after.fences, strict=True) if then[0] == now[0] and then != now
    ]
    _hold(not replaced, "entries that a fence has taken were replaced")
    _hold(
        all(now[0] >= then[0] for then, now in zip(after.fences, after.ahead, strict=True)), "staged is taken already"
    )
    _hold(min(moved) >= 0, "a fence went back")
    _hold(sum(moved) <= 2 and moved.count(0) >= 1, "a fence took a step that the policy does not allow")
    _hold(not any(moved) or not after.body.permits, "an advance left a permit open")


def _check_aliases(before: World, after: World, name: str) -> None:
    for alias in before.body.aliases:
        _hold(alias in after.body.aliases, "an alias went away")
    for alias, now in after.body.aliases.items():
        then = before.body.aliases.get(alias)
        if now == then:
            continue
        _hold(now.generation == (0 if then is None else then.generation) + 1, "a generation repeats or is left out")
        _hold(usable(before, now.root), "an alias moved to a root that is not verified at the fences")
        _hold(approved(before, now.root), "an alias moved to a root that nobody approved")
        if name.startswith("rollback "):
            known = before.body.candidates[now.root]
            _hold(known.admitted is not None, "a rollback to a root that was never admitted")
        assumed = name.rsplit(" ", 1)[-1]
        if name.startswith("admit ") and assumed != "None":
            _hold(int(assumed) == now.generation - 1, "a false assumption was accepted")


def _check_candidates(before: World, after: World, name: str) -> None:
    for root, then in before.body.candidates.items():
        now = after.body.candidates.get(root)
        _hold(now is not None or "etire " in name, "a candidate went away")
        if then.state == "INVALID" and now is not None and now.state != "INVALID":
            _hold(usable(before, root) and approved(before, root), "an INVALID root came back without new evidence")
        _hold(now is None or not _back(then, now), "an ADMITTED root is STAGED again")
        _hold(now is None or then.admitted is None or now.admitted is not None, "an admission was forgotten")


def _back(then: Candidate, now: Candidate) -> bool:
    return (then.state, now.state) == ("ADMITTED", "STAGED")


def _check_runs(before: World, after: World) -> None:
    for name, now in after.body.runs.items():
        then = before.body.runs.get(name)
        if then is None:
            alias = before.body.aliases.get(now.alias)
            pinned = alias is not None and (alias.root, alias.generation) == (now.root, now.generation)
            _hold(pinned, "a run started on what its alias does not point to")
        else:
            _hold((then.root, then.generation) == (now.root, now.generation), "a run changed its root")
        if now.permit is not None and (then is None or now.permit != then.permit):
            _hold(usable(before, now.root), "a run has a permit for a root that is not verified at the fences")
        if then is not None and now.head != then.head:
            _hold(then.permit is not None and then.permit in before.body.permits, "a checkpoint without a permit")
            expected = 0 if then.head is None else then.head.generation + 1
            _hold(now.head is not None and now.head.generation == expected, "a checkpoint does not follow the head")
    for name, run in before.body.runs.items():
        gone = name not in after.body.runs and run.permit in after.body.permits
        _hold(not gone, "the permit of a run that ended is open")


def usable(world: World, root: str) -> bool:
    """Whether a verifier of the policy of now reported the root up to the fences of now, after any invalidation."""
    candidate = world.body.candidates[root]
    since = candidate.sequence if candidate.state == "INVALID" else 0
    # A world keeps the newest chains; a client may still hold an older one that is as true.
    held = [chain for slot in world.slots if slot is not None for chain in slot.known.chains]
    return any(
        chain.end == world.fences
        and chain.sequence >= since
        and chain.reports[0].report.root == root
        and chain.reports[0].key_ids == ids(f"verifier-{world.policy}")
        for chain in (*world.chains.values(), *held)
    )


def approved(world: World, root: str) -> bool:
    """Whether somebody approved the root, after any invalidation."""
    candidate = world.body.candidates[root]
    since = candidate.sequence if candidate.state == "INVALID" else 0
    given = world.approvals.get(root)
    return given is not None and given.approval.gate_sequence >= since
