"""Do the facts of a drill fit together? Pure. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardrel.lab.barrier import admitted, installed
from shardrel.lab.evidence import Checkpoint, Evaluation, Lineage, Recovery, WorkerGroup

KILLED = -9
CANDIDATE_STEP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that does not fit.

    Attributes:
        check: Name of the rule.
        subject: What it is about.
    """

    check: str
    subject: str


def judge(reference: Evaluation, recovered: Evaluation, recovery: Recovery, ranks: tuple[int, int]) -> list[Problem]:
    """Everything that the records alone can tell."""
    checks = (
        _transcript(recovery),
        _choice(recovery),
        _groups(recovery, ranks),
        _lineages(recovery, ranks),
        _traces(recovery),
        _evaluations(reference, recovered, recovery),
    )
    return [Problem(check=check, subject=subject) for found in checks for check, subject in found]


def _transcript(recovery: Recovery) -> Iterator[tuple[str, str]]:
    events = recovery.events
    if [event.number for event in events] != list(range(len(events))) or recovery.unacknowledged != len(events) - 1:
        yield "transcript", "numbers"
    if (recovery.installed, recovery.admitted) != (installed(events), admitted(events)):
        yield "transcript", "installed"
    if recovery.publisher.status != KILLED or not recovery.publisher.reaped:
        yield "exits", "publisher"
    if recovery.recovery.status != 0 or not recovery.recovery.reaped:
        yield "exits", "recovery"


def _choice(recovery: Recovery) -> Iterator[tuple[str, str]]:
    choice = recovery.choice
    generation, hinted = int(recovery.installed), int(recovery.admitted)
    wanted = {
        "scanned": (tuple(range(generation + 1)), choice.scanned),
        "generation": (generation, choice.generation),
        "step": (generation + 1, choice.step),
        "hinted": (hinted, choice.hinted),
        "hint": ("current" if hinted == generation else "stale", choice.hint),
        "helped": (recovery.installed and not recovery.admitted, choice.helped),
        "passedOver": ((), choice.passed_over),
        "replayed": (CANDIDATE_STEP - choice.step, recovery.replayed),
    }
    for name, (expected, seen) in wanted.items():
        if expected != seen:
            yield "choice", name


def _groups(recovery: Recovery, ranks: tuple[int, int]) -> Iterator[tuple[str, str]]:
    before, after = ranks
    sizes = {"genesis": before, "reference": before, "crashed": before, "continued": before, "resharded": after}
    if [group.name for group in recovery.groups] != list(sizes):
        yield "exits", "groups"
    for group in recovery.groups:
        if group.exits != (0,) * sizes.get(group.name, 0):
            yield "exits", group.name


def _lineages(recovery: Recovery, ranks: tuple[int, int]) -> Iterator[tuple[str, str]]:
    before, after = ranks
    start = [(0, 1, before), *([(1, 2, before)] if recovery.installed else [])]
    generation, step, _ = start[-1]
    wanted = {
        "reference": [(0, 1, before), (1, 2, before), (2, 3, before)],
        "crash": [*start, (generation + 1, step, after), (generation + 2, step + 1, after)],
        "continued": [*start, (generation + 1, step + 1, before)],
    }
    if [lineage.store for lineage in recovery.lineages] != list(wanted):
        yield "lineage", "stores"
        return
    for lineage in recovery.lineages:
        seen = [(one.generation, one.step, one.world_size) for one in lineage.checkpoints]
        if seen != wanted[lineage.store]:
            yield "lineage", lineage.store
    yield from _one_state_a_step(recovery)


def _one_state_a_step(recovery: Recovery) -> Iterator[tuple[str, str]]:
    """Whoever is at a step is in one state, and has consumed the same samples."""
    first: dict[int, Checkpoint] = {}
    for lineage in recovery.lineages:
        for one in lineage.checkpoints:
            known = first.setdefault(one.step, one)
            if one.state_root != known.state_root:
                yield "state", f"{lineage.store}-{one.generation}"
            if (one.ledger, one.cursor) != (known.ledger, known.cursor):
                yield "ledger", f"{lineage.store}-{one.generation}"
    chosen = first.get(recovery.choice.step)
    if chosen is None or recovery.choice.state_root != chosen.state_root:
        yield "state", "choice"
    if chosen is None or recovery.choice.ledger != chosen.ledger:
        yield "ledger", "choice"


def _traces(recovery: Recovery) -> Iterator[tuple[str, str]]:
    ledgers = {one.step: one.ledger for lineage in recovery.lineages for one in lineage.checkpoints}
    end = recovery.choice.step + 1
    steps = {"genesis": [1], "reference": [2, 3], "crashed": [2], "continued": [end], "resharded": [end]}
    for group in recovery.groups:
        if list(group.trace) != [ledgers.get(step) for step in steps.get(group.name, [])]:
            yield "ledger", group.name


def _evaluations(reference: Evaluation, recovered: Evaluation, recovery: Recovery) -> Iterator[tuple[str, str]]:
    if (reference.path, recovered.path) != ("reference", "recovered"):
        yield "evaluation", "path"
    by_name = {lineage.store: lineage.checkpoints for lineage in recovery.lineages}
    end = recovery.choice.step + 1
    if reference.checkpoint not in by_name.get("reference", ()) or reference.checkpoint.step != end:
        yield "evaluation", "reference"
    if (recovered.checkpoint,) != by_name.get("crash", ())[-1:]:
        yield "evaluation", "recovered"
    facts = [(one.samples, one.correct, one.loss) for one in (reference, recovered)]
    if facts[0] != facts[1]:
        yield "evaluation", "equal"
    if (reference.logits, reference.logits_digest) != (recovered.logits, recovered.logits_digest):
        yield "logits", "equal"


def exits(groups: Sequence[WorkerGroup]) -> int:
    """Workers that were waited for."""
    return sum(len(group.exits) for group in groups)


def final(lineages: Sequence[Lineage]) -> Checkpoint:
    """The last checkpoint of the store that crashed."""
    return next(lineage.checkpoints[-1] for lineage in lineages if lineage.store == "crash")
