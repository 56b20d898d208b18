"""``shardrel affected``: which roots, aliases, runs and checkpoints hold members that entries name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import Workers
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.output import Result, Table, meter
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from verifier.affected import Affected
    from verifier.fences import Selectors

_SHOWN = 50


def affected(
    settings: Settings,
    tombstones: Annotated[
        Path | None, typer.Option("--tombstones", metavar="FILE", help="Entries as for fence tombstones.")
    ] = None,
    benchmarks: Annotated[
        Path | None, typer.Option("--benchmarks", metavar="FILE", help="Entries as for fence benchmarks.")
    ] = None,
    workers: Workers = 2,
    decrypt: Decrypt = None,
) -> Result:
    """List every root, alias, run and checkpoint that holds a member which entries name. Changes nothing."""
    from verifier.affected import find_affected

    selectors = _selectors(tombstones, benchmarks)
    store = the_store(settings)
    view = the_gate(settings, store)
    with meter("affected", quiet=settings.as_json) as progress:
        found = find_affected(store, view, selectors, unlocked=unlocked(decrypt), workers=workers, progress=progress)
    return _shown(found)


def _selectors(tombstones: Path | None, benchmarks: Path | None) -> "Selectors":
    from shardrel.canonical.json import MAX_INTEGER
    from shardrel.gate.fence_files import read_benchmarks, read_tombstones
    from verifier import fences

    if tombstones is None and benchmarks is None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "name a FILE of --tombstones, of --benchmarks, or of both")
    deleted = [] if tombstones is None else read_tombstones(tombstones)
    asked = [] if benchmarks is None else read_benchmarks(benchmarks)
    return fences.either(fences.tombstones(deleted, MAX_INTEGER), fences.benchmarks(asked, MAX_INTEGER))


def _shown(found: "Affected") -> Result:
    import msgspec

    users = msgspec.to_builtins(found.users)
    roots = [
        {"root": root, "state": found.states[root], "members": count, "complete": root not in found.unreadable}
        for root, count in found.roots.items()
    ]
    unreadable = [{"root": root, "code": code} for root, code in found.unreadable.items()]
    whole = f"of {len(found.states)} roots that the gate knows or knew"
    return Result(
        data={
            "roots": roots,
            **users,
            "unreadable": unreadable,
            "gone": list(found.gone),
            "known": len(found.states),
            "read": found.read,
            "passedOver": found.passed_over,
        },
        headline=f"{len(roots)} {whole} hold a named member" + (", and some could not be read" if unreadable else ""),
        facts=[
            ("aliases", len(found.users.aliases)),
            ("runs", len(found.users.runs)),
            ("checkpoints", len(found.users.checkpoints)),
            ("gone", len(found.gone)),
        ],
        tables=_tables(roots, users, unreadable),
        status=1 if unreadable else 0,
    )


def _tables(roots: list[dict[str, Any]], users: dict[str, Any], unreadable: list[dict[str, Any]]) -> list[Table]:
    tables = [
        ("Roots", ["members", "state", "root"], [(r["members"], r["state"] or "let go of", r["root"]) for r in roots]),
        ("Aliases", ["alias", "generation", "root"], [tuple(a.values()) for a in users["aliases"]]),
        ("Runs", ["run", "state", "root"], [tuple(run.values()) for run in users["runs"]]),
        ("Checkpoints", ["run", "generation", "commit"], [tuple(c.values())[:3] for c in users["checkpoints"]]),
        ("Not to be read", ["root", "code"], [tuple(one.values()) for one in unreadable]),
    ]
    return [
        Table(title=_title(title, len(rows)), columns=columns, rows=rows[:_SHOWN])
        for title, columns, rows in tables
        if rows
    ]


def _title(title: str, rows: int) -> str:
    return f"{title} (the first {_SHOWN} of {rows:,}, all with --json)" if rows > _SHOWN else title
