"""``shardrel log``: the history of a gate, checked from its beginning; and what of it is kept elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.arguments import Newest
from shardrel.cli.files import write_file
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import signers, the_gate
from shardrel.cli.words import counted, history_table, last, shown_of
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.history import Link
    from shardrel.gate.log import LogEntry
    from shardrel.gate.view import GateView
    from shardrel.store.port import Store

_MOST_BYTES = 64 << 20


def log(
    settings: Settings,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What was kept (of --export, or an earlier log --json) has to hold still."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add a signed checkpoint to this file, after a check of those in it."),
    ] = None,
    limit: Newest = None,
) -> Result:
    """List all transitions, oldest first, with every link and signature checked."""
    from shardrel.gate.history import read_history
    from shardrel.gate.log import entries_of

    store = the_store(settings)
    view = the_gate(settings, store)
    links = read_history(store, view)
    held = None if against is None else _held(store, view, links, against)
    made = None if export is None else _exported(settings, store, view, links, export)
    entries = entries_of(links)
    shown = last(entries, limit)
    return Result(
        data={
            "transitions": [_data(entry) for entry in shown],
            "total": len(entries),
            "against": held,
            "export": made,
        },
        headline=f"{counted(len(entries), 'transition')}, checked{shown_of(len(shown), len(entries))}",
        facts=[*_facts("kept before", held), *_facts("export", made)],
        tables=[history_table(entries, newest=limit)],
    )


def _held(store: "Store", view: "GateView", links: "list[Link]", path: Path) -> dict[str, Any]:
    """Hold the history against what was kept: an export, or an earlier output of this verb."""
    from shardrel.gate.anchor import must_extend
    from shardrel.gate.log import must_hold

    data = _read(path)
    if data is None:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path))
    if data.lstrip().startswith(b"{"):
        saved = _saved(data, path)
        must_hold([link.digest for link in links], saved)
        return {"file": str(path), "size": len(saved), "checkpoints": 0}
    kept = must_extend(store, view, links, _text(data, path))
    return {"file": str(path), "size": kept.size, "checkpoints": kept.checkpoints}


def _exported(settings: Settings, store: "Store", view: "GateView", links: "list[Link]", path: Path) -> dict[str, Any]:
    """Add a checkpoint to the file, where something happened since the last one in it."""
    from shardrel.gate.anchor import extend, governors
    from shardrel.trust.note import verifier_key

    if path.exists() and not path.is_file():
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is no plain file, which could grow", path=str(path))
    data = _read(path)
    kept = None if data is None else _text(data, path)
    done = extend(store, view, links, kept, signers(settings, view.policy, "governor"))
    if done.added:
        write_file(path, done.text.encode())
    return {
        "file": str(path),
        "origin": done.origin,
        "size": done.size,
        "root": done.root,
        "checkpoints": done.checkpoints,
        "added": done.added,
        "verifierKeys": [verifier_key(done.origin, key) for key in governors(view)],
    }


def _read(path: Path) -> bytes | None:
    """The file; None where there is none.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.invalid``.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path)) from err
    if len(data) > _MOST_BYTES:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is too long", path=str(path))
    return data


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is no export of a log", path=str(path)) from err


def _saved(data: bytes, path: Path) -> list[str]:
    import msgspec

    try:
        transitions = msgspec.json.decode(data, type=dict[str, Any])["transitions"]
        digests = [str(transition["digest"]) for transition in transitions]
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError) as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is no output of log --json", path=str(path)) from err
    if not digests:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} holds no transition to compare with", path=str(path))
    if transitions[0].get("parent") is not None:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"{path} lacks the first transitions; keep a log without --limit", path=str(path)
        )
    return digests


def _facts(name: str, shown: dict[str, Any] | None) -> list[tuple[str, object]]:
    if shown is None:
        return []
    checkpoints = f", {counted(shown['checkpoints'], 'checkpoint')}" if shown["checkpoints"] else ""
    about = counted(shown["size"], "transition") + checkpoints
    return [(name, about)] + ([("root", shown["root"])] if "root" in shown else [])


def _data(entry: "LogEntry") -> dict[str, Any]:
    import msgspec

    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "role": entry.role,
        "signers": list(entry.signers),
        "operationId": entry.operation_id,
        "recordedAt": entry.recorded_at,
        "digest": entry.digest,
        "parent": entry.parent,
        "request": msgspec.to_builtins(entry.request),
        "effects": msgspec.to_builtins(entry.effects),
        "attestations": list(entry.attestations),
    }
