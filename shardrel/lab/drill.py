"""The drill: train, crash, recover, reshard, go on, and compare. Source: schemas/SPEC.md#crash-lab."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab.barrier import Barrier, admitted, installed
from shardrel.lab.evidence import Choice, Evaluation, Exit, Lineage, Recovery, WorkerGroup
from shardrel.lab.fashion import Pins, read_table
from shardrel.lab.processes import Processes
from shardrel.lab.programs import Programs
from shardrel.lab.retained import retained
from shardrel.lab.scene import DATASET, RUN, prepare
from shardrel.lab.stores import STORES as STORES
from shardrel.lab.stores import Stores, open_at
from shardrel.lab.tasks import Evaluate, Place, Publication, Publish, Recover, Reshard, Train, Trained
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a drill is to do.

    Attributes:
        folder: Fresh; everything is made in it, but the stores where they are on a server.
        data: Folder of the data set's files.
        ranks: World size before the crash, and that of the resharded rest.
        processes: Starts them, with a folder for what they say on stderr.
    """

    folder: Path
    stores: Stores
    data: Path
    pins: Pins
    barrier: Barrier
    seed: int
    global_batch: int
    ranks: tuple[int, int]
    programs: Programs
    processes: Callable[[Path], Processes]
    now: Callable[[], str]
    progress: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was seen."""

    root: str
    reference: Evaluation
    recovered: Evaluation
    recovery: Recovery


class Drill:
    """One drill under way; what a failed one has made stays for whoever looks."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.folder = setting.folder
        self.groups: list[WorkerGroup] = []
        (self.folder / "logs").mkdir()
        (self.folder / "stores").mkdir()
        self.processes = setting.processes(self.folder / "logs")

    def observe(self) -> Observed:
        """All of it.

        Raises:
            RunFailedError: ``run.rank-failed`` where a process failed that was not to.
            ShardrelError: What the product says where it does not do what it promises.

        Effects: stores, and files that the processes share, below the folder.
        """
        return self.crash(self.prepare())

    def prepare(self) -> str:
        """Everything up to the state that the publisher is to commit when it is killed; the release's root."""
        root = self._release()
        self._say("genesis, committed into both stores")
        both = [("reference", "genesis", 1), ("crash", "genesis", 1)]
        self._train("genesis", "reference", 1, self._before, both)
        self._say("the uninterrupted reference")
        steps = [("reference", f"reference-{step}", step) for step in (2, 3)]
        self._train("reference", "reference", 2, self._before, steps)
        self._say("the crash")
        self._train("crashed", "crash", 1, self._before, [])
        return root

    def crash(self, root: str) -> Observed:
        """The crash, and everything behind it."""
        task = self._task([("crash", "candidate", 2)], "crashed", self._before, watched=True)
        events, publisher = self.processes.kill_at("publisher", task, self.setting.barrier)
        self._say("recovery by a fresh process")
        choice: Choice = self.processes.run("recovery", Recover(place=self._place("crash"))).choice
        end = self._go_on(choice)
        self._say("both evaluations")
        sides = Evaluate(reference=self._place("reference"), recovered=self._place("crash"), root=root, step=end)
        both = self.processes.run("evaluation", sides)
        return Observed(
            root=root,
            reference=both.reference,
            recovered=both.recovered,
            recovery=Recovery(
                barrier=self.setting.barrier.name,
                events=tuple(events),
                unacknowledged=events[-1].number,
                installed=installed(events),
                admitted=admitted(events),
                publisher=Exit(status=publisher.status, reaped=True),
                recovery=Exit(status=0, reaped=True),
                choice=choice,
                replayed=2 - choice.step,
                groups=tuple(self.groups),
                lineages=tuple(self._lineage(name) for name in STORES),
            ),
        )

    @property
    def _before(self) -> int:
        return self.setting.ranks[0]

    def _release(self) -> str:
        self._say("the release")
        table = read_table(self.setting.data, self.setting.pins)
        source, keys = self.folder / "source.arrow", self.folder / "keys"
        root = prepare(self._store("reference"), keys, source, table, self.setting.programs, self.setting.now)
        source.unlink()
        self.setting.stores.copy("reference", "crash")
        return root

    def _go_on(self, choice: Choice) -> int:
        """On as many ranks as before in a copy, and on the other number in the store that crashed; the last step."""
        step, after = choice.step + 1, self.setting.ranks[1]
        self.setting.stores.copy("crash", "continued")
        self._say(f"going on from step {choice.step} on {self._before} ranks")
        self._train("continued", "continued", 1, self._before, [("continued", "continued", step)])
        self._say(f"resharding offline to {after} ranks, and going on")
        place = self._place("crash")
        self.processes.run(
            "reshard", Reshard(place=place, attempt="resharded", generation=choice.generation, world_size=after)
        )
        self._train("resharded", "crash", 1, after, [("crash", "final", step)])
        return step

    def _train(self, name: str, store: str, batches: int, ranks: int, commits: list[tuple[str, str, int]]) -> None:
        """A group of workers; what they leave is committed as (store, attempt, step) say."""
        task = Train(
            place=self._place(store),
            cache=str(self.folder / "cache"),
            handoff=str(self.folder / "handoff" / name),
            batches=batches,
            global_batch=self.setting.global_batch,
        )
        then = self._task(commits, name, ranks, watched=False) if commits else None
        ended = self.processes.group(name, task, ranks, then)
        traces = {one.answer.trace for one in ended if isinstance(one.answer, Trained)}
        if len(traces) != 1:
            raise RunFailedError(ErrorCode.CHECKPOINT_CUT, "the ranks of a group consumed different samples", name=name)
        exits = tuple(one.status for one in ended)
        self.groups.append(WorkerGroup(name=name, exits=exits, trace=traces.pop()))

    def _task(self, what: list[tuple[str, str, int]], group: str, ranks: int, *, watched: bool) -> Publish:
        handoffs = self.folder / "handoff" / group
        publications = tuple(
            Publication(store=self._url(store), attempt=attempt, handoff=str(handoffs / str(step)), world_size=ranks)
            for store, attempt, step in what
        )
        return Publish(place=self._place(what[0][0]), publications=publications, watched=watched)

    def _place(self, store: str) -> Place:
        return Place(
            store=self._url(store),
            keys=str(self.folder / "keys"),
            dataset=DATASET,
            run=RUN,
            seed=self.setting.seed,
            server=self.setting.stores.server,
        )

    def _lineage(self, name: str) -> Lineage:
        kept = retained(self._store(name), DATASET, RUN)
        return Lineage(store=name, checkpoints=tuple(one.fact for one in kept))  # type: ignore[arg-type]

    def _url(self, store: str) -> str:
        return self.setting.stores.url(store)

    def _store(self, store: str) -> Store:
        return open_at(self._url(store), self.setting.stores.server)

    def _say(self, what: str) -> None:
        self.setting.progress(what)
