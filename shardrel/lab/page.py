"""A bundle as one HTML page with pictures, drawn from its records alone. Pure. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Iterator, Sequence
from html import escape

from shardrel.lab.bundle import Bundle
from shardrel.lab.evidence import Recovery
from shardrel.lab.judge import exits, final
from shardrel.lab.pictures import lineage, timeline, topology

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--dim:#595959;--paper:#fff;--rule:#ddd;--line:#767676;
--box:#eef3f8;--edge:#5b7c9d;--ok:#3f7f3d;--inner:#c98a1b;--kill:#c0392b}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--dim:#aaa;--paper:#161616;--rule:#333;--line:#8a8a8a;
--box:#1f2b36;--edge:#7ea3c7;--ok:#6fb56c;--inner:#e0a94a;--kill:#ef6a5b}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:2.2rem 0 0}p{margin:.2rem 0 .8rem;color:var(--dim)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.2rem;margin:0}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:0;overflow-x:auto}svg{display:block;width:100%;min-width:56rem;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .dim{fill:var(--dim)}svg .last{fill:var(--kill);text-anchor:end}
.line{stroke:var(--line);fill:none}.end{stroke:var(--kill);stroke-dasharray:3 3}.box{fill:var(--box);stroke:var(--edge)}
.chosen{stroke-width:2.5}.lost{fill:none;stroke:var(--line);stroke-dasharray:5 4}
.ok{fill:var(--ok);background:var(--ok)}.inner{fill:var(--inner);background:var(--inner)}.kill{fill:var(--kill);background:var(--kill)}
.state0{fill:#4477aa}.state1{fill:#228833}.state2{fill:#ccbb44}
p span{display:inline-block;margin-right:.7em}i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
@media(max-width:40rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
""".strip().replace("\n", "")


def page(bundle: Bundle) -> str:
    """The whole page; the same bundle gives the same bytes."""
    return "\n".join(_lines(bundle)) + "\n"


def _lines(bundle: Bundle) -> Iterator[str]:
    title = f"Crash drill: {bundle.audit.barrier}"
    recovery = bundle.recovery
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
    yield from _facts(bundle)
    yield "<h2>Timeline</h2>"
    yield (
        '<p><span><i class="ok"></i>a store operation begins or ends</span> '
        '<span><i class="inner"></i>a durable step inside of one</span> '
        '<span><i class="kill"></i>never acknowledged: killed there</span></p>'
    )
    yield from _figure("timeline", timeline(recovery))
    yield "<h2>Topology</h2>"
    yield f"<p>Processes, one group after the other; {exits(recovery.groups)} workers and the two between them were waited for.</p>"
    yield from _figure("topology", topology(recovery))
    yield "<h2>Lineage</h2>"
    yield "<p>Generations of the three stores, oldest first; one colour is one state, bit for bit.</p>"
    yield from _figure("lineage", lineage(recovery))
    yield "</body></html>"


def _figure(name: str, picture: Iterator[str]) -> Iterator[str]:
    """Wider than a phone, so it scrolls by itself there, also by keys."""
    yield f'<figure tabindex="0" aria-label="{name}">'
    yield from picture
    yield "</figure>"


def _facts(bundle: Bundle) -> Iterator[str]:
    yield "<dl>"
    for name, value in _named(bundle):
        yield f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
    yield "</dl>"


def _named(bundle: Bundle) -> Sequence[tuple[str, object]]:
    recovery, reference = bundle.recovery, bundle.reference
    choice, last = recovery.choice, final(recovery.lineages)
    return [
        ("outcome", bundle.audit.outcome),
        ("publisher", f"status {recovery.publisher.status}, event {recovery.unacknowledged} unacknowledged"),
        ("candidate", _candidate(recovery)),
        ("recovered", f"generation {choice.generation}, step {choice.step}; the hint was {choice.hint}"),
        ("trained twice", f"{recovery.replayed} {'batch' if recovery.replayed == 1 else 'batches'}"),
        ("last", f"generation {last.generation}, step {last.step}, {last.world_size} ranks"),
        ("worker exits", exits(recovery.groups)),
        ("evaluated", f"{reference.samples:,} samples, {reference.correct:,} right on both sides"),
        ("logits, reference", reference.logits_digest),
        ("logits, recovered", bundle.recovered.logits_digest),
        ("release", bundle.audit.root),
        ("program", bundle.audit.package),
    ]


def _candidate(recovery: Recovery) -> str:
    if not recovery.installed:
        return "not installed"
    return "installed and admitted" if recovery.admitted else "installed, not admitted"
