"""A bundle as one HTML page with pictures, drawn from its records alone. Pure. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Iterator, Sequence
from html import escape

from shardrel.lab.bundle import Bundle
from shardrel.lab.evidence import Checkpoint, Recovery
from shardrel.lab.judge import exits, final

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "h1{font-size:1.4rem}h2{font-size:1.05rem;margin:2rem 0 .4rem}svg{width:100%;height:auto}"
    "svg text{font:12px system-ui,sans-serif;fill:#1a1a1a}svg .dim{fill:#666}svg .line{stroke:#888;fill:none}"
    "svg .box{fill:#eef3f8;stroke:#5b7c9d}svg .ok{fill:#4c8c4a}svg .inner{fill:#d9a441}svg .kill{fill:#c0392b}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.15rem 1rem .15rem 0;border-bottom:1px solid #ddd;"
    "overflow-wrap:anywhere;font-weight:normal}th{color:#555}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}svg text{fill:#e6e6e6}svg .dim{fill:#aaa}"
    "svg .box{fill:#1f2b36;stroke:#7ea3c7}td,th{border-color:#333}th{color:#aaa}}"
)
_WIDTH = 900


def page(bundle: Bundle) -> str:
    """The whole page; the same bundle gives the same bytes."""
    return "\n".join(_lines(bundle)) + "\n"


def _lines(bundle: Bundle) -> Iterator[str]:
    title = f"Crash drill: {bundle.audit.barrier}"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
    yield _table(_facts(bundle))
    yield "<h2>Timeline: events of the publisher, each acknowledged but the last</h2>"
    yield from _timeline(bundle.recovery)
    yield "<h2>Topology: processes, one group after the other, all waited for</h2>"
    yield from _topology(bundle.recovery)
    yield "<h2>Lineage: generations of the three stores, by step</h2>"
    yield from _lineage(bundle.recovery)
    yield "</body></html>"


def _facts(bundle: Bundle) -> list[tuple[str, object]]:
    recovery, reference = bundle.recovery, bundle.reference
    choice, last = recovery.choice, final(recovery.lineages)
    return [
        ("outcome", bundle.audit.outcome),
        ("publisher", f"status {recovery.publisher.status}, event {recovery.unacknowledged} unacknowledged"),
        ("candidate", _candidate(recovery)),
        ("recovered", f"generation {choice.generation}, step {choice.step}; the hint was {choice.hint}"),
        ("trained twice", f"{recovery.replayed} batches"),
        ("last", f"generation {last.generation}, step {last.step}, {last.world_size} ranks"),
        ("worker exits", exits(recovery.groups)),
        ("evaluated", f"{reference.samples} samples, {reference.correct} right on both sides"),
        ("logits, reference", reference.logits_digest),
        ("logits, recovered", bundle.recovered.logits_digest),
        ("release", bundle.audit.root),
        ("program", bundle.audit.package),
    ]


def _candidate(recovery: Recovery) -> str:
    if not recovery.installed:
        return "not installed"
    return "installed and admitted" if recovery.admitted else "installed, not admitted"


def _table(facts: Sequence[tuple[str, object]]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts)
    return f"<table>{rows}</table>"


def _timeline(recovery: Recovery) -> Iterator[str]:
    """A bar an event, a row a kind of place, so that content is seen to come before authority."""
    places = list(dict.fromkeys(event.place for event in recovery.events))
    left, pitch = 120, (_WIDTH - 140) / max(len(recovery.events), 1)
    yield _svg(30 + 24 * len(places), "events of the publisher")
    for row, place in enumerate(places):
        yield f'<text x="0" y="{24 * row + 27}">{escape(place)}</text>'
        yield f'<path class="line" d="M{left} {24 * row + 23}H{_WIDTH - 10}" stroke-dasharray="1 5"/>'
    for event in recovery.events:
        kind = "ok" if event.step in ("begin", "end") else "inner"
        kind = "kill" if event.number == recovery.unacknowledged else kind
        x, y = left + pitch * event.number, 24 * places.index(event.place) + 14
        label = escape(f"{event.number}: {event.operation} {event.place}, {event.step}")
        yield f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(pitch - 2, 1):.1f}" height="18"><title>{label}</title></rect>'
    yield "</svg>"


def _topology(recovery: Recovery) -> Iterator[str]:
    """Worker groups from left to right, and the two isolated processes where they ran."""
    columns: list[tuple[str, Sequence[int]]] = [(group.name, group.exits) for group in recovery.groups]
    isolated = [("publisher", [recovery.publisher.status]), ("recovery", [recovery.recovery.status])]
    columns[3:3] = isolated
    width = _WIDTH // max(len(columns), 1)
    yield _svg(60 + 26 * max(len(statuses) for _, statuses in columns), "processes")
    for number, (name, statuses) in enumerate(columns):
        x = width * number
        yield f'<rect class="box" x="{x + 4}" y="24" width="{width - 12}" height="{12 + 26 * len(statuses)}" rx="6"/>'
        yield f'<text x="{x + 6}" y="16">{escape(name)}</text>'
        for rank, status in enumerate(statuses):
            y = 42 + 26 * rank
            yield f'<circle class="{"ok" if status == 0 else "kill"}" cx="{x + 20}" cy="{y}" r="7"/>'
            yield f'<text x="{x + 34}" y="{y + 4}">exit {status}</text>'
    yield "</svg>"


def _lineage(recovery: Recovery) -> Iterator[str]:
    """A box a generation; equal digests of state stand under each other."""
    yield _svg(90 * len(recovery.lineages) + 10, "generations")
    for row, lineage in enumerate(recovery.lineages):
        yield f'<text x="0" y="{90 * row + 45}">{lineage.store}</text>'
        for number, one in enumerate(lineage.checkpoints):
            yield from _box(one, 110 + 195 * number, 90 * row + 10, chosen=_is_chosen(recovery, lineage.store, one))
            if number:
                yield f'<path class="line" d="M{85 + 195 * number} {90 * row + 42}h25"/>'
    yield "</svg>"


def _is_chosen(recovery: Recovery, store: str, one: Checkpoint) -> bool:
    return store == "crash" and one.generation == recovery.choice.generation


def _box(one: Checkpoint, x: int, y: int, *, chosen: bool) -> Iterator[str]:
    yield f'<rect class="box" x="{x}" y="{y}" width="170" height="66" rx="6"/>'
    mark = ", selected" if chosen else ""
    yield f'<text x="{x + 8}" y="{y + 18}">generation {one.generation}{mark}</text>'
    yield f'<text x="{x + 8}" y="{y + 36}">step {one.step}, {one.world_size} ranks</text>'
    yield f'<text class="dim" x="{x + 8}" y="{y + 54}">state {one.state_root[7:19]}</text>'


def _svg(height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">'
