"""A verb's answer as one HTML page that needs nothing else. Pure: the same answer gives the same page."""

from collections.abc import Iterator, Sequence
from html import escape

from shardrel.cli.output import Result, Table

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--dim:#555;--paper:#fff;--rule:#ddd}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--dim:#aaa;--paper:#161616;--rule:#333}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:2rem 0 .4rem}p{overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:0;overflow-x:auto}table{border-collapse:collapse;min-width:50%}
th,td{text-align:left;vertical-align:top;padding:.2rem 1.6rem .2rem 0;border-top:1px solid var(--rule)}
th{color:var(--dim);font-weight:normal}tr:first-child>th,.on>td{border-top:0}.on>td{padding-top:0}
@media(max-width:40rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}th,td{padding-right:1rem}}
""".strip().replace("\n", "")


def page(result: Result, title: str) -> str:
    """The whole page; everything that was not written here is escaped."""
    return "\n".join(_lines(result, title)) + "\n"


def _lines(result: Result, title: str) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{escape(title)}</h1>"
    for sentence in (result.headline, *result.sentences):
        yield f"<p>{escape(sentence)}</p>"
    yield "<dl>"
    for name, value in result.facts:
        yield f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
    yield "</dl>"
    for table in result.tables:
        yield from _table(table)
    yield "</body></html>"


def _table(table: Table) -> Iterator[str]:
    """Wider than a phone at times, so it scrolls by itself there, also by keys."""
    title = escape(table.title or "")
    yield f"<h2>{title}</h2>"
    yield f'<figure tabindex="0" aria-label="{title}"><table>'
    if any(table.columns):
        yield f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in table.columns)}</tr>"
    for row in table.rows:
        yield f"{_opened(row)}{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>"
    yield "</table></figure>"


def _opened(row: Sequence[object]) -> str:
    """A row without a first cell goes on with the one before."""
    return '<tr class="on">' if len(row) > 1 and row[0] == "" else "<tr>"
