"""The page about the drills keeps up with them."""

import re
from pathlib import Path

from shardrel.drills.attacks import ATTACKS, Attack
from shardrel.drills.catalogue import DRILLS
from shardrel.drills.drill import Drill

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "drills.md").read_text()
README = (ROOT / "README.md").read_text()
TRUST = (ROOT / "docs" / "trust.md").read_text()
CODES = {drill.name: drill.expected for drill in DRILLS}


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


def attack_row(attack: Attack) -> str:
    """The attack's line in the table of the page on trust."""
    anchor = ", ".join(f"`{name}` → `{CODES[name]}`" for name in attack.anchor) or "no"
    return f"| {attack.name} | `{attack.drill}` | `{CODES[attack.drill]}` | {attack.here} | {anchor} |"


def test_every_attack_that_tuf_lists_has_a_drill_of_its_own() -> None:
    assert len({attack.drill for attack in ATTACKS}) == len({attack.name for attack in ATTACKS}) == len(ATTACKS) == 11
    named = {name for attack in ATTACKS for name in (attack.drill, *attack.anchor)}
    assert named <= CODES.keys()


def test_the_table_of_attacks_is_the_list() -> None:
    table = TRUST.partition("| attack |")[2].splitlines()[2:]
    assert [line for line in table if line.startswith("| ")] == [attack_row(attack) for attack in ATTACKS]
