"""What the history of a gate says that its state no longer does. Pure. Source: schemas/SPEC.md#retention."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shardrel.records.transition import Admit, AdmitCheckpoint, EndRun, Retire, Rollback, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An alias at one of its generations."""

    alias: str
    generation: int
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedCommit:
    """A checkpoint that a run had admitted."""

    generation: int
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that left the state.

    Attributes:
        given_up: Retention was told to let go of its last checkpoint.
        others: Further roots, of a mix.
    """

    root: str
    outcome: Literal["finished", "cancelled"]
    last: AdmittedCommit | None
    given_up: bool = False
    others: tuple[str, ...] = ()

    @property
    def roots(self) -> tuple[str, ...]:
        """All roots that it was pinned to, each once."""
        return tuple(dict.fromkeys((self.root, *self.others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """All moves of all aliases, and all runs that ended.

    Attributes:
        admitted: The checkpoints of each run, oldest first.
        progress: Of each run, the sequence of its newest admission of a checkpoint.
    """

    moves: Sequence[Move]
    ended: Mapping[str, EndedRun]
    admitted: Mapping[str, Sequence[AdmittedCommit]] = field(default_factory=dict)
    progress: Mapping[str, int] = field(default_factory=dict)


def past_of(history: Iterable[Transition]) -> Past:
    """Read a whole history, oldest first."""
    moves: list[Move] = []
    ended: dict[str, EndedRun] = {}
    admitted: dict[str, list[AdmittedCommit]] = {}
    progress: dict[str, int] = {}
    given_up: set[str] = set()
    for made in history:
        request, effects = made.request, made.effects
        match request:
            case Admit() | Rollback() if effects.generation is not None:
                moves.append(Move(alias=request.alias, generation=effects.generation, root=request.root))
            case AdmitCheckpoint():
                one = AdmittedCommit(generation=request.generation, commit=request.commit)
                admitted.setdefault(request.run, []).append(one)
                progress[request.run] = made.sequence
            case EndRun() if effects.root is not None:
                last = admitted.get(request.run, [None])[-1]
                others = tuple(one.root for one in effects.inputs or ())
                ended[request.run] = EndedRun(root=effects.root, outcome=request.outcome, last=last, others=others)
            case Retire():
                given_up |= set(request.runs)
            case _:
                pass
    for run in given_up & ended.keys():
        ended[run] = replace(ended[run], given_up=True)
    return Past(moves=moves, ended=ended, admitted=admitted, progress=progress)
