"""The pictures of a drill, as SVG that is drawn from its records alone. Pure. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Iterator, Sequence
from html import escape

from shardrel.lab.barrier import BEGIN, COMMIT, END, GATE_STATE, Event
from shardrel.lab.evidence import Checkpoint, Lineage, Recovery

WIDTH = 900
_LEFT = 120
_AUTHORITY = (COMMIT, GATE_STATE)
_GENERATION, _BETWEEN = 168, 24


def timeline(recovery: Recovery) -> Iterator[str]:
    """A bar an event, a row a kind of place; what decides lies below what is decided about."""
    events = recovery.events
    places = _rows(events)
    pitch = (WIDTH - _LEFT - 10) / max(len(events), 1)
    floor = 24 * len(places) + 8
    yield _svg(floor + 40, "Events of the publisher")
    for row, place in enumerate(places):
        yield f'<text x="0" y="{24 * row + 18}">{escape(place)}</text>'
        yield f'<path class="line" d="M{_LEFT} {24 * row + 14}H{WIDTH - 10}" stroke-dasharray="1 5"/>'
    for event in events:
        yield _bar(event, recovery.unacknowledged, _LEFT + pitch * event.number, 24 * places.index(event.place), pitch)
    for number in range(0, len(events), 5):
        yield f'<text class="dim" x="{_LEFT + pitch * number:.1f}" y="{floor + 10}">{number}</text>'
    end = _LEFT + pitch * (recovery.unacknowledged + 0.5)
    yield f'<path class="end" d="M{end:.1f} 0V{floor + 18}"/>'
    yield f'<text class="last" x="{WIDTH - 10}" y="{floor + 32}">SIGKILL at event {recovery.unacknowledged}</text>'
    yield "</svg>"


def topology(recovery: Recovery) -> Iterator[str]:
    """Worker groups from left to right in the order of their runs, and the two isolated processes where they ran."""
    columns: list[tuple[str, Sequence[int]]] = [(group.name, group.exits) for group in recovery.groups]
    isolated = [("publisher", [recovery.publisher.status]), ("recovery", [recovery.recovery.status])]
    columns[3:3] = isolated
    width = WIDTH / max(len(columns), 1)
    yield _svg(54 + 26 * max(len(statuses) for _, statuses in columns), "Processes")
    for number, (name, statuses) in enumerate(columns):
        x = width * number + 1
        yield f'<text x="{x + 4:.1f}" y="16">{escape(name)}</text>'
        yield f'<rect class="box" x="{x:.1f}" y="24" width="{width - 18:.1f}" height="{12 + 26 * len(statuses)}" rx="6"/>'
        if number:
            yield f'<path class="line" d="M{x - 16:.1f} 43h12m-5 -4l5 4l-5 4"/>'
        for rank, status in enumerate(statuses):
            y = 43 + 26 * rank
            yield f'<circle class="{"ok" if status == 0 else "kill"}" cx="{x + 16:.1f}" cy="{y}" r="6"/>'
            yield f'<text x="{x + 28:.1f}" y="{y + 4}">exit {status}</text>'
    yield "</svg>"


def lineage(recovery: Recovery) -> Iterator[str]:
    """A box a generation, oldest first; equal states have an edge of one colour."""
    roots = [one.state_root for row in recovery.lineages for one in row.checkpoints]
    colours = {root: number for number, root in enumerate(dict.fromkeys(roots))}
    yield _svg(86 * len(recovery.lineages) - 10, "Generations")
    for row, one in enumerate(recovery.lineages):
        y = 86 * row
        yield f'<text x="0" y="{y + 40}">{escape(one.store)}</text>'
        boxes = _boxes(recovery, one)
        for number, checkpoint in enumerate(boxes):
            x = _LEFT - 30 + (_GENERATION + _BETWEEN) * number
            if checkpoint is None:
                yield from _lost(x, y)
                continue
            if number and boxes[number - 1] is not None:
                yield f'<path class="line" d="M{x - _BETWEEN + 2} {y + 38}h{_BETWEEN - 6}m-5 -4l5 4l-5 4"/>'
            chosen = one.store == "crash" and checkpoint.generation == recovery.choice.generation
            yield from _box(checkpoint, x, y, colours[checkpoint.state_root], chosen=chosen)
    yield "</svg>"


def _rows(events: Sequence[Event]) -> list[str]:
    places = list(dict.fromkeys(event.place for event in events))
    return sorted(places, key=lambda place: _AUTHORITY.index(place) if place in _AUTHORITY else -1)


def _bar(event: Event, last: int, x: float, y: int, pitch: float) -> str:
    kind = "kill" if event.number == last else "ok" if event.step in (BEGIN, END) else "inner"
    label = escape(f"{event.number}: {event.operation} {event.place}, {event.step}")
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y + 5}" width="{max(pitch - 2, 1):.1f}" height="18">'
        f"<title>{label}</title></rect>"
    )


def _boxes(recovery: Recovery, row: Lineage) -> list[Checkpoint | None]:
    """None for the candidate that never became a generation, where it would have been."""
    boxes: list[Checkpoint | None] = list(row.checkpoints)
    if row.store == "crash" and not recovery.installed:
        boxes.insert(1, None)
    return boxes


def _lost(x: int, y: int) -> Iterator[str]:
    """What came before and what came after are joined around it."""
    around = _GENERATION + _BETWEEN
    yield f'<path class="line" d="M{x - around + 84} {y + 72}v8h{2 * around}v-7m-4 5l4 -5l4 5"/>'
    yield f'<rect class="lost" x="{x}" y="{y + 5}" width="{_GENERATION}" height="66" rx="6"/>'
    yield f'<text class="dim" x="{x + 14}" y="{y + 23}">candidate</text>'
    yield f'<text class="dim" x="{x + 14}" y="{y + 41}">never had its name</text>'


def _box(one: Checkpoint, x: int, y: int, colour: int, *, chosen: bool) -> Iterator[str]:
    yield f'<rect class="box{" chosen" if chosen else ""}" x="{x}" y="{y + 5}" width="{_GENERATION}" height="66" rx="6"/>'
    yield f'<rect class="state{colour}" x="{x}" y="{y + 11}" width="6" height="54"/>'
    mark = ", selected" if chosen else ""
    yield f'<text x="{x + 14}" y="{y + 23}">generation {one.generation}{mark}</text>'
    yield f'<text x="{x + 14}" y="{y + 41}">step {one.step}, {one.world_size} ranks</text>'
    yield f'<text class="dim" x="{x + 14}" y="{y + 59}">state {one.state_root[7:19]}</text>'


def _svg(height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
