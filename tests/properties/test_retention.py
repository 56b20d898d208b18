"""What retention keeps, held against a slow reading of the SPEC: one sentence at a time, over random pasts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shardrel.gate.past import AdmittedCommit, EndedRun, Move, Past
from shardrel.gate.retention import Commit, Kept, Wanted, keep
from shardrel.records.gate import Alias, Candidate, GateBody, Publication, Run
from tests.support import gates
from tests.unit.gate.bodies import empty

ROOTS = [gates.a_root(f"r{number}") for number in range(5)]
ALIASES = ("prod", "dev")
RUNS = ("run-1", "run-2", "run-3")

roots = st.sampled_from(ROOTS)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[GateBody, Past, Wanted]:
    """A gate, its past and a wish; what an alias or an open run uses is a candidate that was admitted."""
    moves = {name: draw(st.lists(roots, max_size=5)) for name in ALIASES}
    aliases = {name: Alias(generation=len(gone), root=gone[-1], sequence=1) for name, gone in moves.items() if gone}
    names = draw(st.permutations(RUNS))
    split = draw(st.integers(0, len(names)))
    used = draw(st.lists(roots, min_size=len(names), max_size=len(names)))
    runs = {name: a_run(root) for name, root in list(zip(names, used, strict=True))[:split]}
    ended = {
        name: EndedRun(
            root=root,
            outcome=draw(st.sampled_from(["finished", "cancelled"])),
            last=draw(st.none() | st.builds(AdmittedCommit, generation=st.integers(0, 3), commit=roots)),
            given_up=draw(st.booleans()),
        )
        for name, root in list(zip(names, used, strict=True))[split:]
    }
    admitted = {alias.root for alias in aliases.values()} | {run.root for run in runs.values()}
    candidates = {}
    for root in ROOTS:
        states = ["ADMITTED", "INVALID"] if root in admitted else ["ADMITTED", "INVALID", "STAGED", None]
        state = draw(st.sampled_from(states))
        if state is not None:
            candidates[root] = Candidate(state=state, sequence=1, reason=None)
    publications = draw(
        st.dictionaries(st.sampled_from(["p", "q"]), st.builds(Publication, snapshot=roots, sequence=st.just(1)))
    )
    body = replace(empty(), aliases=aliases, runs=runs, candidates=candidates, publications=publications)
    past = Past(
        moves=[
            Move(alias=name, generation=at, root=root)
            for name, gone in moves.items()
            for at, root in enumerate(gone, start=1)
        ],
        ended=ended,
    )
    wanted = Wanted(
        generations=draw(st.integers(0, 4)),
        abandon=frozenset(draw(st.lists(st.sampled_from(["p", "q", *RUNS, *ROOTS])))),
        hits=frozenset(draw(st.lists(roots))),
    )
    return body, past, wanted


def a_run(root: str) -> Run:
    return Run(alias="prod", root=root, generation=1, permit=None, closed=None, head=None, sequence=1)


def stays(root: str, body: GateBody, past: Past, wanted: Wanted) -> bool:
    """Whether a root stays, sentence by sentence."""
    if root not in body.candidates:
        return False
    if any(alias.root == root for alias in body.aliases.values()):
        return True
    if any(run.root == root for run in body.runs.values()):
        return True
    if body.candidates[root].state == "STAGED" and root not in wanted.abandon:
        return True
    if root in wanted.hits:
        return False
    for move in past.moves:
        age = body.aliases[move.alias].generation - move.generation
        if move.root == root and age <= wanted.generations:
            return True
    return any(ended.root == root and checkpoint_stays(run, past, wanted) for run, ended in past.ended.items())


def checkpoint_stays(run: str, past: Past, wanted: Wanted) -> bool:
    ended = past.ended[run]
    given_up = ended.given_up or run in wanted.abandon
    return ended.last is not None and ended.outcome == "finished" and not given_up


@settings(max_examples=400, deadline=None)
@given(scenes())
def test_what_stays_is_what_the_sentences_say(scene: tuple[GateBody, Past, Wanted]) -> None:
    body, past, wanted = scene
    kept = keep(body, past, wanted)
    assert set(kept.roots) == {root for root in ROOTS if stays(root, body, past, wanted)}
    assert all(kept.roots.values())
    assert set(kept.retired) == set(body.candidates) - set(kept.roots)
    assert {commit.run for commit in kept.commits} == {run for run in past.ended if checkpoint_stays(run, past, wanted)}


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_more_generations_never_keep_less_and_giving_up_never_keeps_more(
    scene: tuple[GateBody, Past, Wanted],
) -> None:
    body, past, wanted = scene
    kept = keep(body, past, wanted)
    wider = Wanted(generations=wanted.generations + 1, abandon=wanted.abandon, hits=wanted.hits)
    careful = Wanted(generations=wanted.generations)
    for more in (keep(body, past, wider), keep(body, past, careful)):
        assert set(more.roots) >= set(kept.roots)
        assert set(more.commits) >= set(kept.commits)
        assert set(more.snapshots) >= set(kept.snapshots)


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_every_publication_that_is_not_given_up_pins_its_snapshot(scene: tuple[GateBody, Past, Wanted]) -> None:
    body, past, wanted = scene
    kept: Kept = keep(body, past, wanted)
    left = {name: pin for name, pin in body.publications.items() if name not in wanted.abandon}
    assert set(kept.snapshots) == {pin.snapshot for pin in left.values()}
    assert set(kept.open_publications) == set(left)
    assert set(kept.publications) == set(body.publications) - set(left)
    assert all(isinstance(commit, Commit) for commit in kept.commits)
