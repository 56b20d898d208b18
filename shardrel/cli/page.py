"""A verb's answer as one HTML page that needs nothing else. Pure: the same answer gives the same page."""

from collections.abc import Iterator
from html import escape

from shardrel.cli.output import Result, Table

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:2rem 0 .4rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dt{color:#555}dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0;
border-bottom:1px solid #ddd;overflow-wrap:anywhere}th{color:#555;font-weight:normal}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}dt,th{color:#aaa}th,td{border-color:#333}}
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
    yield f"<h2>{escape(table.title or '')}</h2>"
    yield "<table>"
    if any(table.columns):
        yield f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>"
    yield "</table>"
