"""``shardrel drill crash``: a checkpoint transaction is killed for real, and what comes after is compared."""

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shardrel import clock
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.lab.barrier import Barrier
    from shardrel.lab.conduct import Conducted
    from shardrel.lab.drill import Setting
    from shardrel.lab.programs import Programs
    from shardrel.store.port import Store
    from shardrel.trust.signer import Signer

NAME = "crash"
LAB_KEY = "lab"
DATA = Path("/usr/share/datasets/fashion-mnist")
_BATCH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashOptions:
    """What the line says beside the drill's name."""

    barrier: str | None
    out: Path | None
    data: Path | None
    seed: int
    ranks: int
    onto: int
    repository: Path | None
    revision: str | None

    @property
    def given(self) -> bool:
        """Whether there is one that only this drill has."""
        return any(value is not None for value in (self.barrier, self.out, self.data, self.repository, self.revision))


def crash(settings: Settings, options: CrashOptions) -> Result:
    """Make the drill in a fresh folder, which is the bundle then."""
    need_torch()
    from shardrel.lab.barrier import NAMED, read_barrier
    from shardrel.lab.conduct import conduct, make_folder
    from shardrel.lab.installed import check_checkout, package_digest

    if options.barrier is None:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, f"name a --barrier: {', '.join(NAMED)}, store-N-before, store-N-after"
        )
    if (options.repository is None) != (options.revision is None):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "--repository and --expected-revision go together")
    barrier = read_barrier(options.barrier)
    if options.repository is not None and options.revision is not None:
        check_checkout(options.repository, options.revision)
    signer = lab_signer(settings)
    folder = options.out or Path(f"crash-{barrier.name}-{clock.fresh_id()[:12]}")
    make_folder(folder)
    return _shown(
        folder,
        conduct(_setting(settings, folder.resolve(), barrier, options), signer, options.revision, package_digest),
    )


def need_torch() -> None:
    """Say what to install where torch is absent.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if importlib.util.find_spec("torch") is None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "this needs torch: pip install 'shardrel[train]'")


def lab_signer(settings: Settings) -> "Signer":
    """The key that signs bundles: the one that was named, else the folder's own for this, made where absent."""
    from shardrel.cli.access import the_key
    from shardrel.trust import keyring

    if settings.key:
        return the_key(settings, settings.key[-1])
    keyring.ensure(settings.keys, (LAB_KEY,))
    return the_key(settings, LAB_KEY)


def _setting(settings: Settings, folder: Path, barrier: "Barrier", options: CrashOptions) -> "Setting":
    from shardrel.lab.drill import Setting
    from shardrel.lab.fashion import FASHION_MNIST
    from shardrel.lab.processes import IsolatedProcesses

    return Setting(
        folder=folder,
        data=options.data or DATA,
        pins=FASHION_MNIST,
        barrier=barrier,
        seed=options.seed,
        global_batch=_BATCH,
        ranks=(options.ranks, options.onto),
        programs=the_programs(),
        processes=lambda logs: IsolatedProcesses(environment=dict(os.environ), logs=logs),
        now=clock.now_utc,
        progress=_teller(settings),
    )


def _teller(settings: Settings) -> Callable[[str], None]:
    """Says on a terminal how far the drill is."""

    def say(what: str) -> None:
        if sys.stderr.isatty() and not settings.as_json:
            sys.stderr.write(f"{what}\n")

    return say


def _silent(done: int, total: int | None = None) -> None:
    """Drills say how far they are, not what they use."""


def the_programs() -> "Programs":
    """The real publisher and the real verifier."""
    from shardrel.lab.programs import Programs

    return Programs(release=_release, verify=_verify)


def _release(store: "Store", dataset: str, sources: Sequence[str], signer: "Signer") -> str:
    from publisher.options import PublishOptions
    from publisher.publish import World, publish
    from publisher.snapshot import SnapshotOptions, make_snapshot
    from shardrel.gate.fences import FenceSelectors
    from shardrel.records.snapshot import Columns

    nothing = FenceSelectors()
    columns = Columns(id="id", source=None, version=None, split="split")
    declared = make_snapshot(
        store,
        sources,
        SnapshotOptions(dataset=dataset, columns=columns, token_column=None),
        tombstones=nothing,
        benchmarks=nothing,
        progress=_silent,
    )
    world = World(signer=signer, now=clock.now_utc, progress=_silent)
    return publish(store, declared.snapshot, sources, PublishOptions(shards=4), fences=nothing, world=world).root


def _verify(store: "Store", root: str, view: "GateView", signer: "Signer") -> None:
    from verifier.verify import World, verify_release

    verify_release(store, root, view, world=World(signer=signer, now=clock.now_utc, progress=_silent))


def _shown(folder: Path, done: "Conducted") -> Result:
    from shardrel.lab.judge import exits, final

    recovery, reference = done.observed.recovery, done.observed.reference
    choice, last = recovery.choice, final(recovery.lineages)
    failures = [{"check": one.check, "subject": one.subject} for one in done.problems]
    return Result(
        data={
            "bundle": str(folder),
            "outcome": done.audit.outcome,
            "barrier": recovery.barrier,
            "events": len(recovery.events),
            "unacknowledged": recovery.unacknowledged,
            "installed": recovery.installed,
            "admitted": recovery.admitted,
            "publisher": recovery.publisher.status,
            "selected": {
                "generation": choice.generation,
                "step": choice.step,
                "hint": choice.hint,
                "helped": choice.helped,
            },
            "replayed": recovery.replayed,
            "final": {"generation": last.generation, "step": last.step, "worldSize": last.world_size},
            "workerExits": exits(recovery.groups),
            "evaluated": reference.samples,
            "correct": reference.correct,
            "logits": reference.logits_digest,
            "stateRoot": last.state_root,
            "root": done.observed.root,
            "failures": failures,
        },
        headline=f"{done.audit.outcome}: killed at {recovery.barrier}, recovered generation {choice.generation}",
        facts=[
            ("bundle", folder),
            ("the publisher", f"ended by signal {-recovery.publisher.status} at event {recovery.unacknowledged}"),
            ("recovered", f"generation {choice.generation}, step {choice.step}; the hint was {choice.hint}"),
            ("replayed", f"{recovery.replayed} batches"),
            ("final", f"generation {last.generation}, step {last.step}, on {last.world_size} ranks"),
            ("evaluated", f"{reference.samples:,} samples, {reference.correct:,} right"),
        ],
        tables=[Table(columns=["check", "about"], rows=[(one.check, one.subject) for one in done.problems])]
        if done.problems
        else [],
        status=1 if done.problems else 0,
    )
