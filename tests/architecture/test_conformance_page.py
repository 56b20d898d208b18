"""The table of public cases names tests that exist, and every test of public cases stands in it."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "conformance"
PAGE = (FOLDER / "README.md").read_text()


def named() -> set[tuple[Path, str]]:
    """Files and tests that the page names; a bare file name is in its own folder."""
    found = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    return {((ROOT if "/" in path else FOLDER) / path, name) for path, name in found}


def names_in(path: Path) -> set[str]:
    nodes = ast.parse(path.read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_the_page_names_exists() -> None:
    assert len(named()) > 30
    missing = [f"{path.relative_to(ROOT)}::{name}" for path, name in sorted(named()) if name not in names_in(path)]
    assert not missing


def test_every_test_of_a_public_case_stands_in_the_page() -> None:
    left = {
        (path.name, name)
        for path in FOLDER.glob("test_public_cases_*.py")
        for name in names_in(path)
        if (path, name) not in named()
    }
    assert not left
