"""Write schemas/records/*.schema.json and schemas/error-codes.json from the code.

    python schemas/generate.py

The JSON Schemas say what a record looks like to somebody without our code. The list of error codes is
append-only: a code that the code no longer has stays in the list, and nothing in it changes its name.
"""

import ast
import importlib
import json
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import shardrel.errors
import shardrel.records
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.records.fields import END, Record

FOLDER = Path(__file__).resolve().parent
RECORDS = FOLDER / "records"
CODES = FOLDER / "error-codes.json"
SOURCES = ("shardrel", "publisher", "verifier")


def record_types() -> Iterator[type[Record]]:
    """Every top-level record: those that a ``schema`` field names."""
    for module in pkgutil.iter_modules(shardrel.records.__path__):
        loaded = importlib.import_module(f"shardrel.records.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, Record) and value.__module__ == loaded.__name__:
                config = value.__struct_config__
                if config.tag_field == "schema" and config.tag:
                    yield value


def schema_files() -> dict[str, str]:
    """File name and text of every JSON Schema."""
    # Patterns of JSON Schema need no more than the "$", and some of its readers know nothing of what Python needs.
    end = json.dumps(END)[1:-1]
    texts = {kind.__struct_config__.tag: _text(_schema(kind)).replace(end, "$") for kind in record_types()}
    return {f"{tag}.schema.json": text for tag, text in texts.items()}


def _schema(kind: type[Record]) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": str(kind.__struct_config__.tag), **schema}


def categories() -> dict[str, int]:
    """Exit status of every category of errors."""
    kinds = [kind for kind in vars(shardrel.errors).values() if isinstance(kind, type)]
    return {
        kind.__name__: kind.exit_status
        for kind in kinds
        if issubclass(kind, ShardrelError) and kind is not ShardrelError
    }


def raised_as() -> dict[str, set[str]]:
    """Categories that the sources raise each code with; a code without one is a finding of a report."""
    known = categories()
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(path for source in SOURCES for path in (FOLDER.parent / source).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            made = _made(node)
            if made is not None and made[0] in known:
                found[ErrorCode[made[1]].value].add(made[0])
    return found


def _made(node: ast.AST) -> tuple[str, str] | None:
    """Names of category and code of ``SomeError(ErrorCode.SOME, …)`` or ``partial(SomeError, ErrorCode.SOME)``."""
    if not isinstance(node, ast.Call):
        return None
    match [node.func, *node.args]:
        case [ast.Name(id="partial"), ast.Name(id=kind), ast.Attribute(value=ast.Name(id="ErrorCode"), attr=code), *_]:
            return kind, code
        case [ast.Name(id=kind), ast.Attribute(value=ast.Name(id="ErrorCode"), attr=code), *_]:
            return kind, code
    return None


def published_codes() -> list[str]:
    """What schemas/error-codes.json lists now."""
    return [entry["code"] for entry in json.loads(CODES.read_text())["codes"]] if CODES.exists() else []


def all_codes(published: list[str]) -> list[str]:
    """The published list with what is new appended."""
    return [*published, *[code.value for code in ErrorCode if code.value not in published]]


def codes_text(published: list[str]) -> str:
    """Text of schemas/error-codes.json."""
    exits, raised = categories(), raised_as()
    entries = []
    for code in all_codes(published):
        kinds = sorted(raised[code])
        statuses = sorted({exits[kind] for kind in kinds} or {1})
        entries.append({"code": code, "categories": kinds or ["Finding"], "exitStatuses": statuses})
    return _text({"codes": entries})


def _text(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def main() -> None:
    """Write everything."""
    RECORDS.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (RECORDS / name).write_text(text)
    CODES.write_text(codes_text(published_codes()))
    sys.stdout.write(f"{len(schema_files())} schemas, {len(published_codes())} error codes\n")


if __name__ == "__main__":
    main()
