"""Size of files, anchors, and what may not be in the sources at all."""

import re
import tomllib
from pathlib import Path

import pytest

import shardrel

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shardrel", "publisher", "verifier")
SPEC = (ROOT / "schemas" / "SPEC.md").read_text()


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def all_python() -> list[Path]:
    folders = (*PACKAGES, "tests", "benchmarks", "examples", "fixtures", "schemas")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def spec_anchors() -> set[str]:
    """Headings as a renderer names them, and anchors that the text sets itself."""
    headings = re.findall(r"^#{1,3} (.+)$", SPEC, flags=re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', SPEC))


def cited_anchors() -> set[tuple[str, str]]:
    """(file, anchor) of every citation; ``#a, #b`` after one file name are both anchors of it."""
    cited = set()
    for path in all_python():
        for group in re.findall(r"SPEC\.md((?:,?\s*#[a-z][a-z0-9-]*)+)", path.read_text()):
            cited |= {(str(path.relative_to(ROOT)), anchor) for anchor in re.findall(r"#([a-z][a-z0-9-]*)", group)}
    return cited


def test_no_file_has_more_than_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in all_python()
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert not long


def test_every_package_of_the_sources_is_a_regular_one() -> None:
    folders = {path.parent for path in sources()}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "manager", "engine", "misc"])
def test_no_module_is_named_for_having_no_job(name: str) -> None:
    assert not [path for path in sources() if name in path.stem.split("_")]


def test_every_cited_section_of_the_spec_exists() -> None:
    cited = cited_anchors()
    assert len(cited) > 10
    anchors = spec_anchors()
    assert not sorted((path, anchor) for path, anchor in cited if anchor not in anchors)


def test_links_inside_the_spec_lead_somewhere() -> None:
    anchors = spec_anchors()
    assert not [anchor for anchor in re.findall(r"\]\(#([^)]+)\)", SPEC) if anchor not in anchors]


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == shardrel.__version__


def test_public_names_of_the_package_exist_and_are_sorted() -> None:
    assert shardrel.__all__ == sorted(shardrel.__all__)
    assert all(hasattr(shardrel, name) for name in shardrel.__all__)
