"""The page about the drills keeps up with them."""

import re
from pathlib import Path

from shardrel.drills.catalogue import DRILLS
from shardrel.drills.drill import Drill

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "drills.md").read_text()
README = (ROOT / "README.md").read_text()


def row(drill: Drill) -> str:
    """The drill's line in the table."""
    section = f"[{drill.section}](../schemas/SPEC.md#{drill.section})"
    cells = (f"`{drill.name}`", drill.about, drill.fault, drill.attack, f"`{drill.expected}`", section)
    return f"| {' | '.join(cells)} |"


def test_the_table_of_the_page_is_the_catalogue() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [row(drill) for drill in DRILLS]


def test_the_sections_that_drills_name_exist() -> None:
    spec = (ROOT / "schemas" / "SPEC.md").read_text()
    assert not [drill.name for drill in DRILLS if f'<a id="{drill.section}">' not in spec]


def test_the_drills_that_the_readme_names_exist() -> None:
    table = re.findall(r"^\| .+ \| .+ \| `tests/.+ \| (.+) \|$", README, flags=re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`([a-z-]+)`", cell)}
    assert len(named) > 10
    assert named <= {drill.name for drill in DRILLS}
