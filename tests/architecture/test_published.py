"""The lists that others rely on: error codes and JSON Schemas."""

import ast
import hashlib
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

from shardrel.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]

# The list as it was first published: how many codes, and the digest of them in order. What follows is appended.
FIRST_PUBLISHED = 129
FIRST_DIGEST = "5b3f8039bfac135ec2162f897583ff8eb760babd814a5632b748db22f8a7dafa"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_schemas", ROOT / "schemas" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published() -> list[str]:
    return [entry["code"] for entry in json.loads((ROOT / "schemas" / "error-codes.json").read_text())["codes"]]


def test_every_code_is_published_once() -> None:
    assert sorted(published()) == sorted(set(published()))
    assert {code.value for code in ErrorCode} <= set(published())


def test_the_published_list_is_append_only() -> None:
    first = "\n".join(published()[:FIRST_PUBLISHED]).encode()
    assert hashlib.sha256(first).hexdigest() == FIRST_DIGEST
    assert set(published()) == {code.value for code in ErrorCode}, "a code was taken out of the code or of the list"


def test_the_list_of_codes_is_fresh() -> None:
    module = generator()
    assert (ROOT / "schemas" / "error-codes.json").read_text() == module.codes_text(published())


def test_the_json_schemas_are_fresh() -> None:
    made = generator().schema_files()
    assert made == {path.name: path.read_text() for path in (ROOT / "schemas" / "records").glob("*.json")}


def codes_in_tests() -> set[str]:
    """Codes that tests name outside of this folder, as a member of the enum or as a string."""
    names = {code.name: code.value for code in ErrorCode}
    values = set(names.values())
    found: set[str] = set()
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "architecture" not in path.parts]
    for path in [*tests, *(ROOT / "examples").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in names:
                found.add(names[node.attr])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= values & set(re.findall(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", node.value))
    return found


def test_every_code_is_raised_by_a_test() -> None:
    missing = {code.value for code in ErrorCode} - codes_in_tests()
    assert not missing, sorted(missing)


def test_codes_that_reach_their_error_by_way_of_a_rule_or_a_value_have_its_status() -> None:
    told = {entry["code"]: entry for entry in json.loads((ROOT / "schemas" / "error-codes.json").read_text())["codes"]}
    assert told["store.access-denied"]["exitStatuses"] == [3]
    assert told["input.null-id"]["exitStatuses"] == [2]
    assert told["gate.no-such-alias"]["categories"] == ["NotFoundError"]
    assert told["tombstone.hit"]["categories"] == ["RefusedError"]
    assert told["member.missing"]["categories"] == ["Finding"]
