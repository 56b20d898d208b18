"""Transitions and permits in words, for people. Digests are cut to twelve digits, which every verb takes for a root."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shardrel.cli.output import Table

if TYPE_CHECKING:
    from shardrel.gate.log import LogEntry
    from shardrel.gate.permit_lives import Closing, PermitLife
    from shardrel.records.gate import Closed

Row = TypeVar("Row")
_SHOWN = 3
_SCREEN = 20


def beginning(table: Table) -> Table:
    """What fits on a screen; a busy gate has a thousand runs and as many permits."""
    if len(table.rows) <= _SCREEN:
        return table
    title = f"{table.title}: {_SCREEN} of {len(table.rows):,}, all with --json"
    return Table(title=title, columns=table.columns, rows=table.rows[:_SCREEN])


def counted(number: int, what: str) -> str:
    """A number of things; none of these words has an irregular plural."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def run_state(state: str) -> str:
    """A run's state: one whose permit is closed is open all the same, pins its root, and has to be ended."""
    return "open, without a permit" if state == "closed" else state


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short(digest: str | None) -> str:
    """The first digits of a digest or permit."""
    return "" if digest is None else digest.removeprefix("sha256:")[:12]


def what(entry: "LogEntry") -> str:
    """What a transition was asked to do."""
    import msgspec

    asked: dict[str, Any] = msgspec.to_builtins(entry.request)
    match entry.kind:
        case "init":
            return f"the gate of {asked['dataset']}, policy {short(asked['policy']['digest'])}"
        case "begin-publication":
            return f"{asked['publication']} of snapshot {short(asked['snapshot'])}"
        case "end-publication":
            return f"{asked['publication']} with {'root ' + short(asked['root']) if asked['root'] else 'no root'}"
        case "admit" | "rollback":
            return f"{asked['alias']} → {short(asked['root'])}"
        case "stage-fence" | "advance-fence":
            return f"{asked['fence']} {_span(asked['first'], asked['last'])}"
        case "revoke":
            return f"{short(asked['root'])} for {asked['reason']}"
        case "start-run":
            return f"{asked['run']} on {', '.join(one['alias'] for one in asked['inputs'] or [asked])}"
        case "end-run":
            return f"{asked['run']}, {asked['outcome']}"
        case "admit-checkpoint":
            return f"{asked['run']}, generation {asked['generation']}, step {asked['step']:,}"
        case "set-policy":
            return f"{short(asked['previous']['digest'])} → {short(asked['policy']['digest'])}"
        case "retire":
            return f"{counted(asked['objects'], 'object')}, {counted(len(asked['roots']), 'root')}"
        case _:
            return str(asked.get("run") or asked.get("boundary") or "")


def effect(entry: "LogEntry", held: Mapping[str, str]) -> str:
    """What came of it.

    Args:
        held: Who held each permit.
    """
    effects, kind = entry.effects, entry.kind
    said = []
    if kind == "end-publication":
        said.append("the root is a candidate" if getattr(entry.request, "root", None) else "the pin is dropped")
    if kind == "begin-publication":
        said.append("the snapshot is pinned")
    if kind == "stage-fence":
        said.append("closes nothing")
    if kind == "revoke":
        said.append("the root is INVALID")
    if effects.generation is not None and kind != "end-run":
        said.append(f"generation {effects.generation}")
    if effects.opened_permit is not None:
        fences = f"tombstones {effects.tombstone_watermark}, benchmarks {effects.benchmark_fence}"
        said.append(f"opens permit {short(effects.opened_permit)} at {fences}")
    if effects.closed_permits:
        said.append(f"closes {_permits(effects.closed_permits, held)}")
    elif kind == "advance-fence":
        said.append("no permit was open")
    return "; ".join(said)


def why_closed(closing: "Closing | Closed") -> str:
    """What closed a permit, and in which transition."""
    words = {
        "tombstones": f"tombstones {closing.watermark}",
        "benchmarks": f"benchmarks {closing.watermark}",
        "revoke": "the root's revocation",
        "renewal": "the run's renewal",
        "move": "the alias's next move",
        "end": "the run's end",
    }
    return f"{words.get(closing.by, closing.by)}, transition {closing.sequence}"


def lives_table(lives: "Sequence[PermitLife]") -> Table:
    """A row a permit that ever was."""
    rows = [
        (
            short(life.permit),
            holder(life),
            short(life.root),
            f"transition {life.sequence} at {life.tombstone_watermark}/{life.benchmark_fence}",
            "open" if life.closing is None else f"closed by {why_closed(life.closing)}",
        )
        for life in lives
    ]
    columns = ["permit", "of", "root", "opened", ""]
    return Table(title="Permits, at fences of tombstones/benchmarks", columns=columns, rows=rows)


def life_data(life: "PermitLife") -> dict[str, Any]:
    """A permit's life for scripts."""
    closing = life.closing
    return {
        "permit": life.permit,
        "kind": life.kind,
        "subject": life.subject,
        "root": life.root,
        "generation": life.generation,
        "tombstoneWatermark": life.tombstone_watermark,
        "benchmarkFence": life.benchmark_fence,
        "sequence": life.sequence,
        "openedAt": life.opened_at,
        "closed": None
        if closing is None
        else {
            "by": closing.by,
            "watermark": closing.watermark,
            "sequence": closing.sequence,
            "recordedAt": closing.recorded_at,
        },
    }


def holder(life: "PermitLife") -> str:
    """Who holds a permit, or held it."""
    return f"alias {life.subject}" if life.kind == "publication" else f"run {life.subject}"


def _permits(names: Sequence[str], held: Mapping[str, str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    shown = ", ".join(f"{short(name)} ({held.get(name, '?')})" for name in names[:_SHOWN])
    return f"permit{'s' if len(names) > 1 else ''} {shown}{more}"


def _span(first: int, last: int) -> str:
    return str(last) if first == last else f"{first}–{last}"


def shown_of(shown: int, total: int) -> str:
    """What a headline adds where only the end of a list is shown."""
    return "" if shown == total else f"; the newest {shown:,} are shown"


def last(rows: "Sequence[Row]", newest: int | None) -> "Sequence[Row]":
    """The end of a list; None for all of it."""
    return rows if newest is None or newest >= len(rows) else rows[len(rows) - newest :]


def history_table(entries: "Sequence[LogEntry]", title: str | None = None, newest: int | None = None) -> Table:
    """Three lines a transition: what was asked, what came of it, by whom and when under which operation.

    Args:
        entries: All of them, since permits are told by their holders.
        title: Of the table.
        newest: How many are shown; None for all.
    """
    from shardrel.gate.permit_lives import permit_lives

    held = {life.permit: holder(life) for life in permit_lives(entries)}
    rows: list[tuple[object, str]] = []
    for entry in last(entries, newest):
        rows.append((entry.sequence, f"{entry.kind}  {what(entry)}".rstrip()))
        came = effect(entry, held)
        if came:
            rows.append(("", came))
        by = ", ".join(entry.signers) or "?"
        rows.append(("", f"by {by} as {entry.role}, {entry.recorded_at}, operation {entry.operation_id}"))
    return Table(title=title, columns=["", ""], rows=rows)
