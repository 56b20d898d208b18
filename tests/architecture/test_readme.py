"""The README keeps up with the code."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from shardrel.cli.main import main
from shardrel.drills.catalogue import DRILLS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_help_is_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["--help"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
    [block] = re.findall(r"<!-- help -->\n```\n(.*?)\n```", README, flags=re.DOTALL)
    assert [line.rstrip() for line in block.strip().splitlines()] == printed


def test_every_test_that_the_readme_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", README)
    assert len(named) > 10
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]
    assert not missing


def test_every_drill_stands_beside_the_fault_that_it_is() -> None:
    rows = [line.split("|") for line in README.splitlines() if "`tests/" in line and line.startswith("|")]
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row[-2])} == {drill.name for drill in DRILLS}


def test_every_verb_that_the_readme_runs_exists(capsys: pytest.CaptureFixture[str]) -> None:
    groups = {"run", "keys", "policy", "checkpoint"}
    lines = {tuple(line.split()[:2]) for line in re.findall(r"^\$ shardrel (.+)$", README, flags=re.MULTILINE)}
    verbs = {words[:2] if words[0] in groups else words[:1] for words in lines}
    assert len(verbs) > 8
    assert [verb for verb in sorted(verbs) if main([*verb, "--help"])] == []
    capsys.readouterr()


def test_the_python_of_the_readme_imports_what_exists() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    imports = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)]
    assert len(imports) > 5
    for node in imports:
        module = importlib.import_module(node.module or "")
        assert all(hasattr(module, alias.name) for alias in node.names)


def test_what_is_installed_can_be_installed() -> None:
    """No index has the package, so it is installed from a checkout or a wheel, with extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    lines = [line for page in pages for line in re.findall(r"pip install '([^']+)'", page.read_text())]
    assert "## Install" in README
    assert len(lines) > 3
    for line in lines:
        [(what, extra)] = re.findall(r"^(.*)\[(\w+)\]$", line)
        assert what in {".", f"shardrel-{project['version']}-py3-none-any.whl"}
        assert extra in project["optional-dependencies"]


def test_links_and_paths_lead_to_files() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"`(examples/[\w/.]+)`", README)
    assert not [target for target in targets if not (ROOT / target).exists()]
