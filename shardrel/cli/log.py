"""``shardrel log``: the history of a gate, checked from its beginning."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.log import LogEntry


def log(
    settings: Settings,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An earlier `log --json`, which the history must still hold.")
    ] = None,
) -> Result:
    """List all transitions, oldest first, with every link and signature checked."""
    from shardrel.gate.log import must_hold, read_entries

    entries = read_entries(the_store(settings), settings.dataset)
    if against is not None:
        must_hold([entry.digest for entry in entries], _saved(against))
    return Result(
        data={"transitions": [_data(entry) for entry in entries]},
        headline=f"{len(entries)} transitions, checked",
        tables=[
            Table(
                columns=["", "kind", "role", "recorded", "what"],
                rows=[(e.sequence, e.kind, e.role, e.recorded_at, _subject(_data(e)["request"])) for e in entries],
            )
        ],
    )


def _saved(path: Path) -> list[str]:
    import msgspec

    try:
        data = path.read_bytes()
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path)) from err
    try:
        transitions = msgspec.json.decode(data, type=dict[str, list[dict[str, Any]]])["transitions"]
        return [str(transition["digest"]) for transition in transitions]
    except (msgspec.DecodeError, UnicodeError, KeyError) as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is no output of log --json", path=str(path)) from err


def _data(entry: "LogEntry") -> dict[str, Any]:
    import msgspec

    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "role": entry.role,
        "operationId": entry.operation_id,
        "recordedAt": entry.recorded_at,
        "digest": entry.digest,
        "parent": entry.parent,
        "request": msgspec.to_builtins(entry.request),
        "effects": msgspec.to_builtins(entry.effects),
        "attestations": list(entry.attestations),
    }


def _subject(request: Mapping[str, Any]) -> str:
    """The names in a request that tell a person what it was about."""
    names = ("alias", "run", "publication", "fence", "generation", "last", "outcome", "reason", "root")
    return " ".join(str(request[name]) for name in names if request.get(name) is not None)
