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
from shardrel.gate.facts import refuse
from shardrel.gate.refusals import category_of
from shardrel.records.fields import END, Record

FOLDER = Path(__file__).resolve().parent
RECORDS = FOLDER / "records"
CODES = FOLDER / "error-codes.json"
SOURCES = ("shardrel", "publisher", "verifier")
# Of codes that only reach their error by way of a parameter or a value.
_BY_PREFIX = {
    "input.": "InvalidInputError",
    "store.": "UnavailableError",
    "format.": "FormatError",
    "run.": "RunFailedError",
}


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
        tree = ast.parse(path.read_text())
        for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
            for kind, code in _made(scope):
                value = ErrorCode[code]
                name = category_of(value).__name__ if kind == refuse.__name__ else kind
                if name in known:
                    found[value.value].add(name)
    for prefix, name in _BY_PREFIX.items():
        for code in ErrorCode:
            if code.startswith(prefix) and code.value not in found:
                found[code.value].add(name)
    return found


def _made(scope: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of category and code of each error that is made.

    Seen are ``SomeError(ErrorCode.SOME, …)``, ``SomeError(code, …)`` where the same function says ``code = …``, and
    ``partial(SomeError, ErrorCode.SOME)``.
    """
    held: dict[str, list[str]] = defaultdict(list)
    if isinstance(scope, ast.FunctionDef):
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                held[node.targets[0].id] += _codes(node.value)
    for node in ast.walk(scope):
        match node:
            case ast.Call(func=ast.Name(id="partial"), args=[ast.Name(id=kind), first, *_]):
                yield from ((kind, code) for code in _codes(first))
            case ast.Call(func=ast.Name(id=kind), args=[ast.Name(id=name), *_]):
                yield from ((kind, code) for code in held[name])
            case ast.Call(func=ast.Name(id=kind), args=[ast.Attribute() as first, *_]):
                yield from ((kind, code) for code in _codes(first))


def _codes(value: ast.AST) -> list[str]:
    attributes = (node for node in ast.walk(value) if isinstance(node, ast.Attribute))
    return [node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"]


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
