"""A file of declared new names, as ``publish --renames`` takes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardrel.errors import ErrorCode, FormatError, InvalidInputError

if TYPE_CHECKING:
    from shardrel.records.evolution import Rename

_MAX_BYTES = 1 << 24


def read_renames(path: Path) -> "tuple[Rename, ...]":
    """Renames from JSON that a person wrote.

    Either ``{"old column": "new name", …}``, or, for fields inside of columns too, a list of
    ``{"from": "column" or ["column", "field", …], "to": "name"}``.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.schema-rename``.
    """
    import msgspec

    from shardrel.records.evolution import Rename
    from shardrel.trust.strict import parse_value

    class Written(msgspec.Struct, forbid_unknown_fields=True, rename={"place": "from"}):
        place: str | list[str]
        to: str

    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path)) from err
    try:
        found = msgspec.convert(parse_value(data, max_bytes=_MAX_BYTES), list[Written] | dict[str, str])
        if isinstance(found, dict):
            found = [Written(place=name, to=to) for name, to in found.items()]
        return tuple(msgspec.convert({"path": _path(one.place), "to": one.to}, Rename) for one in found)
    except FormatError as err:
        raise InvalidInputError(ErrorCode.INPUT_RENAME, f"{path}: {err.message}", path=str(path)) from err
    except msgspec.ValidationError as err:
        raise InvalidInputError(ErrorCode.INPUT_RENAME, f"{path} holds no new names: {err}", path=str(path)) from err


def _path(place: str | Sequence[str]) -> list[str]:
    return [place] if isinstance(place, str) else list(place)
