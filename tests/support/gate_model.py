"""A plain model of the gate: dictionaries and a few sentences, to hold the rule against.

It knows nothing of records, keys or digests. Reports are the pairs of watermarks that a root was
verified at; everything else follows from the SPEC's table.
"""

from dataclasses import dataclass, field

Position = tuple[int, int]


@dataclass
class Model:
    """What the gate should hold.

    Attributes:
        fences: Watermarks of tombstones and benchmarks.
        states: STAGED, ADMITTED or INVALID, by root.
        once: Roots that were ADMITTED once.
        checked: Where a chain of reports of a root begins and ends, by root: the ends that are reached.
        approved: Roots with an approval that still counts.
        aliases: (generation, root) by alias.
        runs: (root, permitted) by run; ``heads`` the generation of the newest checkpoint.
        publications: Aliases whose publication permit is open, with the root.
    """

    fences: Position = (0, 0)
    states: dict[str, str] = field(default_factory=dict)
    checked: dict[str, set[Position]] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    aliases: dict[str, tuple[int, str]] = field(default_factory=dict)
    runs: dict[str, tuple[str, bool]] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    publications: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    once: set[str] = field(default_factory=set)

    def verified(self, root: str) -> bool:
        """Whether reports carry the root to the fences of now."""
        return self.fences in self.checked.get(root, set())

    def may_admit(self, root: str) -> bool:
        """Whether an alias may move to the root."""
        return root in self.states and self.verified(root) and root in self.approved

    def may_roll_back(self, alias: str, root: str) -> bool:
        """Whether an alias may move back to the root."""
        return alias in self.aliases and root in self.once and self.may_admit(root)

    def may_run(self, root: str) -> bool:
        """Whether a run may start, or go on, on the root."""
        return self.verified(root) and (self.states[root] != "INVALID" or root in self.approved)

    def move(self, alias: str, root: str) -> int:
        """An admission or a rollback; the new generation."""
        generation = self.aliases.get(alias, (0, ""))[0] + 1
        self.aliases[alias] = (generation, root)
        self.states[root] = "ADMITTED"
        self.once.add(root)
        self.publications[alias] = root
        return generation

    def advance(self, kind: int, by: int) -> None:
        """An advance of one fence."""
        self.fences = (self.fences[0] + by, self.fences[1]) if kind == 0 else (self.fences[0], self.fences[1] + by)
        self.publications.clear()
        self.runs = {run: (root, False) for run, (root, _) in self.runs.items()}

    def revoke(self, root: str) -> None:
        """An invalidation: what was said before no longer counts."""
        self.states[root] = "INVALID"
        self.checked[root] = set()
        self.approved.discard(root)
        self.publications = {alias: held for alias, held in self.publications.items() if held != root}
        self.runs = {run: (held, held != root and open_) for run, (held, open_) in self.runs.items()}

    def permit(self, run: str, root: str) -> None:
        """A run that starts or goes on."""
        self.runs[run] = (root, True)
        self.states[root] = "ADMITTED"
