"""Tables of tests name tests that exist, and every test of public cases stands in theirs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "conformance"


def named(folder: Path = FOLDER) -> set[tuple[Path, str]]:
    """Files and tests that a folder's page names; a bare file name is in its own folder."""
    found = re.findall(r"`([\w/]+\.py)::(\w+)`", (folder / "README.md").read_text())
    return {((ROOT if "/" in path else folder) / path, name) for path, name in found}


def names_in(path: Path) -> set[str]:
    nodes = ast.parse(path.read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


PAGES = [FOLDER, *(ROOT / "tests" / name for name in ("unit/checkpoint", "distributed", "simulation"))]


@pytest.mark.parametrize("folder", PAGES, ids=lambda folder: folder.name)
def test_every_test_that_the_page_names_exists(folder: Path) -> None:
    there = named(folder)
    assert len(there) > 30
    missing = [f"{path.relative_to(ROOT)}::{name}" for path, name in sorted(there) if name not in names_in(path)]
    assert not missing


def test_every_test_of_a_public_case_stands_in_the_page() -> None:
    left = {
        (path.name, name)
        for path in FOLDER.glob("test_public_cases_*.py")
        for name in names_in(path)
        if (path, name) not in named()
    }
    assert not left
