"""Names of columns and fields: a twin would be dropped by some reader."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardrel.errors import ErrorCode, InvalidInputError


def check_names(path: Path, schema: Any) -> None:
    """Refuse two columns, or two fields of one struct, of the same name, at any depth.

    Raises:
        InvalidInputError: ``schema.duplicate-field`` with the dotted path of the field; ``input.invalid-utf8``.
    """
    try:
        _check_twins(path, [field.name for field in schema], "")
        for field in schema:
            _check_type(path, field.type, field.name)
    except UnicodeDecodeError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_UTF8, f"{path} has a column whose name is not UTF-8", path=str(path)
        ) from err


def _check_type(path: Path, kind: Any, prefix: str) -> None:
    if isinstance(kind, pa.BaseExtensionType):
        _check_type(path, kind.storage_type, prefix)
    elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        _check_type(path, kind.value_type, prefix)
    elif pa.types.is_nested(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        if pa.types.is_struct(kind):
            _check_twins(path, [field.name for field in fields], prefix + ".")
        for field in fields:
            _check_type(path, field.type, f"{prefix}.{field.name}")


def _check_twins(path: Path, names: list[str], prefix: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInputError(
                ErrorCode.SCHEMA_DUPLICATE_FIELD, f"{path} has {count} fields named {prefix}{name}",
                path=str(path), column=prefix + name,
            )  # fmt: skip
