"""Errors of values, told with the file and the row of the file."""

from pathlib import Path

from shardrel.errors import InvalidInputError


def in_file(err: InvalidInputError, path: Path) -> InvalidInputError:
    """The same error, with its file."""
    if "path" in err.context:
        return err
    return InvalidInputError(err.code, f"{path}: {err.message}", **{**err.context, "path": str(path)})


def at_row(err: InvalidInputError, path: Path, first_row: int) -> InvalidInputError:
    """A row of a batch as a row of its file."""
    row = err.context.get("row")
    if "path" in err.context or not isinstance(row, int):
        return in_file(err, path)
    where = f", column {err.context['column']!r}" if "column" in err.context else ""
    message = err.message.removeprefix(f"row {row}: ")
    context = {**err.context, "path": str(path), "row": first_row + row}
    return InvalidInputError(err.code, f"{path}, row {first_row + row}{where}: {message}", **context)
