"""``shardrel fence``: what must never be in a release from now on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli.access import the_store_to_write
from shardrel.cli.arguments import OperationId
from shardrel.cli.decryption import unlocked
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call_as, the_gate
from shardrel.cli.words import listed, short
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardrel.gate.fence import Advanced
    from shardrel.gate.fences import Entry
    from shardrel.store.port import Store
    from verifier.fences import Selectors

_MOST_PARTS = 64
_NOBODY = (
    "No release in use has a member that the entries name. If one should, an id may be misspelt; shardrel affected"
    " --{kind} FILE tells before a fence, and --stage closes nothing."
)


def fence(
    settings: Settings,
    kind: Annotated[Literal["tombstones", "benchmarks"], typer.Argument(help="Which log.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="JSON Lines, an entry a line.")] = None,
    stage: Annotated[
        bool, typer.Option("--stage", help="Append only: nothing closes, and roots can be checked before.")
    ] = False,
    advance_staged: Annotated[
        bool, typer.Option("--advance-staged", help="Advance over what is staged; takes no FILE.")
    ] = False,
    replace_staged: Annotated[bool, typer.Option("--replace-staged", help="Drop what is staged.")] = False,
    operation_id: OperationId = None,
) -> Result:
    """Append entries to a log and advance its fence: every permit that is bound to less closes at once."""
    from shardrel.gate import fence as verbs
    from shardrel.gate.fence_files import read_benchmarks, read_tombstones

    if (file is None) != advance_staged or (advance_staged and (stage or replace_staged)):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "name a FILE, or say --advance-staged alone")
    store = the_store_to_write(settings)
    caller = call_as(settings, the_gate(settings, store), "governor", operation_id=operation_id)
    if file is None:
        return _shown(verbs.advance_staged(store, settings.dataset, kind, caller), None)
    entries = read_tombstones(file) if kind == "tombstones" else read_benchmarks(file)
    verb = verbs.stage if stage else verbs.advance
    done = verb(store, settings.dataset, kind, entries, caller, replace_staged=replace_staged)
    return _shown(done, _named(settings, store, entries))


def _named(settings: Settings, store: "Store", entries: "Sequence[Entry]") -> "dict[str, int] | None":
    """Members of the roots in use that the entries name; None where few requests don't tell.

    The fence has moved, so nothing that fails here is a failure of the verb.
    """
    from verifier.affected import count_named
    from verifier.in_use import roots_in_use

    try:
        view = the_gate(settings, store)
        roots = roots_in_use(view.body)
        return count_named(store, view, _selectors(entries), roots, unlocked=unlocked(None), most=_MOST_PARTS)
    except ShardrelError:
        return None


def _selectors(entries: "Sequence[Entry]") -> "Selectors":
    from shardrel.canonical.json import MAX_INTEGER
    from shardrel.records.fence import BenchmarkEntry, TombstoneEntry
    from verifier import fences

    deleted = [entry for entry in entries if isinstance(entry, TombstoneEntry)]
    asked = [entry for entry in entries if isinstance(entry, BenchmarkEntry)]
    return fences.either(fences.tombstones(deleted, MAX_INTEGER), fences.benchmarks(asked, MAX_INTEGER))


def _shown(done: "Advanced", named: "dict[str, int] | None") -> Result:
    nobody = bool(named) and not any((named or {}).values())
    found = [f"{count:,} in {short(root)}" for root, count in (named or {}).items()]
    return Result(
        data={
            "kind": done.kind,
            "watermark": done.watermark,
            "staged": done.staged,
            "closedPermits": list(done.closed_permits),
            "appended": done.appended,
            "inUse": None if named is None else [{"root": root, "members": count} for root, count in named.items()],
        },
        headline=f"The fence of {done.kind} stands at {done.watermark}",
        sentences=[_NOBODY.format(kind=done.kind)] if nobody else [],
        facts=[
            ("new entries", done.appended),
            ("staged up to", "nothing" if done.staged is None else done.staged),
            ("closed permits", len(done.closed_permits)),
            *([("members named", listed(found))] if found else []),
        ],
    )
