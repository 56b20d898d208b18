"""Changes of a record schema, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardrel.cli.output import Table

if TYPE_CHECKING:
    from shardrel.records.evolution import Change


def changes_table(changes: "Sequence[Change]") -> Table:
    """A row a change: what, where, from what, to what."""
    return Table(
        title="Record schema",
        columns=["change", "column", "was", "is"],
        rows=[(one.kind, ".".join(one.path) or "(all)", one.was or "", one.now or "") for one in changes],
    )


def in_short(changes: "Sequence[Change]") -> str:
    """How many changes of which kinds, in the order of their first."""
    kinds = [one.kind for one in changes]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "no changes"
