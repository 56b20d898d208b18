"""The rule against a plain model, over long random stories; and what must hold in every state."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shardrel.gate.facts import Accept, Evidence, Refuse, SeenApproval, SeenReport
from shardrel.gate.transitions import decide
from shardrel.records.gate import Fence, FenceKind, GateBody
from shardrel.records.transition import (
    Admit,
    AdmitCheckpoint,
    BeginPublication,
    EndPublication,
    EndRun,
    RenewRun,
    Request,
    Revoke,
    Rollback,
    StartRun,
)
from tests.support import gates
from tests.support.gate_model import Model, Position
from tests.unit.gate.bodies import POLICY, advance_evidence, advance_request, empty, ids, said, seen

ROOTS = {name: gates.a_root(name) for name in ("r1", "r2", "r3")}
ALIASES = ("prod", "dev")
RUNS = ("run-1", "run-2", "run-3")
KINDS: tuple[FenceKind, FenceKind] = ("tombstones", "benchmarks")

roots = st.sampled_from(sorted(ROOTS))
aliases = st.sampled_from(ALIASES)
runs = st.sampled_from(RUNS)


class GateStory(RuleBasedStateMachine):
    """One gate, one model, and everything that was ever attested."""

    def __init__(self) -> None:
        super().__init__()
        self.body: GateBody = empty()
        self.model = Model()
        self.reports: list[SeenReport] = []
        self.approvals: list[SeenApproval] = []
        self.history: list[GateBody] = [self.body]
        self.commits: dict[str, str] = {}
        self.permits_seen: set[str] = set()

    @initialize(publish=st.lists(roots, unique=True, min_size=1))
    def some_roots_are_staged(self, publish: list[str]) -> None:
        for name in publish:
            self.publishes(name)

    def ask(self, request: Request, *, expected: bool, given: Evidence | None = None) -> Accept | Refuse:
        """Decide; the model says whether it is accepted."""
        given = given or Evidence(signers=ids("admin"), reports=tuple(self.reports), approvals=tuple(self.approvals))
        verdict = decide(self.body, request, given, POLICY)
        assert isinstance(verdict, Accept) == expected, (request, verdict)
        if isinstance(verdict, Accept):
            assert verdict.body.sequence == self.body.sequence + 1
            opened = verdict.effects.opened_permit
            assert opened not in self.permits_seen
            assert set(verdict.effects.closed_permits) == set(self.body.permits) - set(verdict.body.permits)
            self.permits_seen |= set() if opened is None else {opened}
            self.body = verdict.body
            self.history.append(self.body)
        return verdict

    @rule(name=roots)
    def publishes(self, name: str) -> None:
        self.ask(BeginPublication(publication="p", snapshot=gates.SNAPSHOT), expected=True)
        self.ask(EndPublication(publication="p", root=ROOTS[name]), expected=True)
        self.model.states.setdefault(name, "STAGED")

    @rule(name=roots)
    def verifies_fully(self, name: str) -> None:
        self.reports.append(seen(gates.a_report(self.body, ROOTS[name])))
        self.model.checked.setdefault(name, set()).add(self.model.fences)

    @rule(name=roots, data=st.data())
    def verifies_what_is_new(self, name: str, data: st.DataObject) -> None:
        anywhere = {(old.tombstones.watermark, old.benchmarks.watermark) for old in self.history}
        reached = self.model.checked.get(name) or anywhere
        start = data.draw(st.sampled_from(sorted(reached)) | st.sampled_from(sorted(anywhere)))
        if start == self.model.fences:
            return
        self.reports.append(seen(self.delta(name, start)))
        ends = self.model.checked.setdefault(name, set())
        if start in ends:
            ends.add(self.model.fences)

    def delta(self, name: str, start: Position):  # type: ignore[no-untyped-def]
        ranges = [
            gates.log_range(0, 0, None)
            if at == fence.watermark
            else gates.log_range(at + 1, fence.watermark, fence, self.fence_at(at, kind))
            for at, kind, fence in zip(start, KINDS, (self.body.tombstones, self.body.benchmarks), strict=True)
        ]
        both = gates.Ranges(tombstones=ranges[0], benchmarks=ranges[1])
        return gates.a_report(self.body, ROOTS[name], ranges=both, kind="delta")

    def fence_at(self, watermark: int, kind: FenceKind) -> Fence:
        fences = [old.tombstones if kind == "tombstones" else old.benchmarks for old in self.history]
        return next(fence for fence in fences if fence.watermark == watermark)

    @rule(name=roots)
    def finds_a_hit(self, name: str) -> None:
        """A FAILED report takes nothing away."""
        self.reports.append(seen(gates.a_report(self.body, ROOTS[name], hits=1)))

    @rule(name=roots, signer=st.sampled_from(["publisher", "stranger"]))
    def somebody_who_does_not_count_says_that_all_is_well(self, name: str, signer: str) -> None:
        self.reports.append(seen(gates.a_report(self.body, ROOTS[name]), signer))
        self.approvals.append(said(gates.an_approval(self.body, ROOTS[name]), signer))

    @rule(name=roots)
    def approves(self, name: str) -> None:
        self.approvals.append(said(gates.an_approval(self.body, ROOTS[name])))
        self.model.approved.add(name)

    @rule(alias=aliases, name=roots, prepared=st.sampled_from(["no", "approved", "new", "full"]), data=st.data())
    def admits(self, alias: str, name: str, prepared: str, data: st.DataObject) -> None:
        if prepared == "full":
            self.verifies_fully(name)
        if prepared == "new":
            self.verifies_what_is_new(name, data)
        if prepared != "no":
            self.approves(name)
        expected = self.model.may_admit(name)
        verdict = self.ask(Admit(alias=alias, root=ROOTS[name]), expected=expected)
        if isinstance(verdict, Accept):
            assert verdict.effects.generation == self.model.move(alias, name)

    @precondition(lambda self: self.model.aliases)
    @rule(alias=aliases, name=roots)
    def rolls_back(self, alias: str, name: str) -> None:
        expected = self.model.may_roll_back(alias, name)
        verdict = self.ask(Rollback(alias=alias, root=ROOTS[name]), expected=expected)
        if isinstance(verdict, Accept):
            assert verdict.effects.generation == self.model.move(alias, name)

    @rule(kind=st.integers(0, 1), by=st.integers(1, 3))
    def advances(self, kind: int, by: int) -> None:
        request = advance_request(self.body, KINDS[kind], by)
        self.ask(request, expected=True, given=advance_evidence(request))
        self.model.advance(kind, by)

    @precondition(lambda self: any(self.model.fences))
    @rule(kind=st.integers(0, 1))
    def goes_back_with_a_fence(self, kind: int) -> None:
        for old in self.history:
            request = advance_request(old, KINDS[kind])
            if request.first <= self.model.fences[kind]:
                self.ask(request, expected=False, given=advance_evidence(request))

    @precondition(lambda self: self.model.aliases)
    @rule(name=roots)
    def revokes(self, name: str) -> None:
        known = name in self.model.states
        self.ask(Revoke(root=ROOTS[name], reason="tests", report=None), expected=known)
        if known:
            self.model.revoke(name)

    @precondition(lambda self: self.model.aliases)
    @rule(run=runs, alias=aliases, prepared=st.booleans())
    def starts_a_run(self, run: str, alias: str, prepared: bool) -> None:
        root = self.model.aliases.get(alias, (0, ""))[1]
        if prepared and root:
            self.verifies_fully(root)
        fresh = run not in self.model.runs and run not in self.model.ended
        given = Evidence(
            signers=ids("admin"),
            reports=tuple(self.reports),
            approvals=tuple(self.approvals),
            run_recorded=run in self.model.ended,
        )
        expected = fresh and root != "" and self.model.may_run(root)
        if isinstance(self.ask(StartRun(run=run, alias=alias), expected=expected, given=given), Accept):
            self.model.permit(run, root)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), recheck=st.sampled_from(["no", "full", "new"]))
    def renews_a_run(self, data: st.DataObject, recheck: str) -> None:
        run = data.draw(st.sampled_from(sorted(self.model.runs)))
        root = self.model.runs[run][0]
        if recheck == "full":
            self.verifies_fully(root)
        if recheck == "new":
            self.verifies_what_is_new(root, data)
        expected = self.model.may_run(root)
        if isinstance(self.ask(RenewRun(run=run), expected=expected), Accept):
            self.model.permit(run, root)

    @precondition(lambda self: self.model.runs)
    @rule(run=runs)
    def ends_a_run(self, run: str) -> None:
        expected = run in self.model.runs
        self.ask(EndRun(run=run, outcome="finished"), expected=expected)
        if expected:
            del self.model.runs[run]
            self.model.ended.add(run)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), skip=st.sampled_from([0, 0, 1]), stale=st.sampled_from([False, False, True]))
    def commits_a_checkpoint(self, data: st.DataObject, skip: int, stale: bool) -> None:
        run = data.draw(st.sampled_from(sorted(self.model.runs)))
        permitted = self.model.runs[run][1]
        generation = self.model.heads.get(run, -1) + 1 + skip
        commit = gates.a_root(f"{run} {generation}")
        held = self.body.runs[run].permit
        request = AdmitCheckpoint(
            run=run,
            generation=generation,
            commit=commit,
            parent=self.commits.get(run),
            step=generation,
            permit="0" * 64 if stale or held is None else held,
        )
        expected = permitted and not stale and not skip
        self.ask(request, expected=expected)
        if expected:
            self.model.heads[run] = generation
            self.commits[run] = commit

    @invariant()
    def the_gate_is_what_the_model_says(self) -> None:
        by_root = {digest: name for name, digest in ROOTS.items()}
        body, model = self.body, self.model
        assert (body.tombstones.watermark, body.benchmarks.watermark) == model.fences
        assert {by_root[root]: found.state for root, found in body.candidates.items()} == model.states
        assert {name: (found.generation, by_root[found.root]) for name, found in body.aliases.items()} == model.aliases
        assert {name: (by_root[run.root], run.permit is not None) for name, run in body.runs.items()} == model.runs
        held = {p.subject: by_root[p.root] for p in body.permits.values() if p.kind == "publication"}
        assert held == model.publications

    @invariant()
    def a_permit_is_never_open_below_a_fence(self) -> None:
        for permit in self.body.permits.values():
            assert permit.tombstone_watermark == self.body.tombstones.watermark
            assert permit.benchmark_fence == self.body.benchmarks.watermark

    @invariant()
    def runs_and_permits_agree(self) -> None:
        held = {run.permit for run in self.body.runs.values()} - {None}
        assert held == {name for name, permit in self.body.permits.items() if permit.kind == "run"}
        assert all((run.permit is None) == (run.closed is not None) for run in self.body.runs.values())

    @invariant()
    def nothing_ever_goes_back(self) -> None:
        if len(self.history) < 2:
            return
        before, now = self.history[-2:]
        assert now.sequence > before.sequence
        assert now.tombstones.watermark >= before.tombstones.watermark
        assert now.benchmarks.watermark >= before.benchmarks.watermark
        for name, alias in before.aliases.items():
            moved = now.aliases[name].generation - alias.generation
            assert moved in (0, 1)
            assert moved == 1 or now.aliases[name] == alias


TestGateStory = GateStory.TestCase
TestGateStory.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
