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
from shardrel.errors import ErrorCode, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.lab.barrier import Barrier
    from shardrel.lab.conduct import Conducted
    from shardrel.lab.drill import Setting
    from shardrel.lab.programs import Programs
    from shardrel.lab.stores import Stores
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
    from shardrel.lab.barrier import KNOWN, read_barrier
    from shardrel.lab.conduct import conduct, make_folder
    from shardrel.lab.installed import check_checkout, package_digest

    if options.barrier is None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"name a --barrier: {KNOWN}")
    if (options.repository is None) != (options.revision is None):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "--repository and --expected-revision go together")
    barrier = read_barrier(options.barrier)
    _check_place(settings, barrier)
    if options.repository is not None and options.revision is not None:
        check_checkout(options.repository, options.revision)
    signer = lab_signer(settings)
    folder = options.out or Path(f"crash-{barrier.name}-{clock.fresh_id()[:12]}")
    make_folder(folder)
    stores = _stores(settings, folder.resolve())
    setting = _setting(settings, folder.resolve(), stores, barrier, options)
    done = conduct(setting, signer, options.revision, package_digest)
    left = None if not done.problems and take_stores_away(stores) else stores
    return _shown(folder, done, left)


def _on_a_server(settings: Settings) -> bool:
    return settings.store.startswith("s3://")


def _check_place(settings: Settings, barrier: "Barrier") -> None:
    if barrier.of_a_server not in (None, _on_a_server(settings)):
        wanted = "a server: name an s3:// --store" if barrier.of_a_server else "a folder: name no s3:// --store"
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"this barrier is one of {wanted}")


def _stores(settings: Settings, folder: Path) -> "Stores":
    """In the bundle's folder, or on the server that ``--store`` names, which is probed first."""
    from shardrel.lab.stores import FolderStores, ServerStores
    from shardrel.lab.tasks import Server
    from shardrel.store.open import open_store
    from shardrel.store.probe import probe

    if not _on_a_server(settings):
        return FolderStores(folder / "stores")
    url = f"{settings.store.rstrip('/')}/drill-{clock.fresh_id()[:12]}"
    found = probe(open_store(url, endpoint_url=settings.endpoint_url))
    found.require()
    return ServerStores(url, Server(endpoint_url=settings.endpoint_url, quoted_tokens=found.quoted_tokens))


def take_stores_away(stores: "Stores") -> bool:
    """Whether nothing is left on the server; the drill's verdict stands either way.

    Effects: deletes every version of every object of the stores, where they are on a server.
    """
    from shardrel.drills.cleanup import take_away
    from shardrel.lab.stores import STORES
    from shardrel.store.open import open_store

    server = stores.server
    if server is None:
        return True
    urls = [stores.base, *(stores.url(name) for name in STORES)]
    try:
        gone = [take_away(open_store(url, endpoint_url=server.endpoint_url), []) for url in urls]
    except UnavailableError:
        return False
    return all(gone)


def need_torch() -> None:
    """Say what to install where torch is absent.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if importlib.util.find_spec("torch") is None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "this needs the extra train; run: pip install torch xxhash")


def lab_signer(settings: Settings) -> "Signer":
    """The key that signs bundles: the one that was named, else the folder's own for this, made where absent."""
    from shardrel.cli.access import the_key
    from shardrel.trust import keyring

    if settings.key:
        return the_key(settings, settings.key[-1])
    keyring.ensure(settings.keys, (LAB_KEY,))
    return the_key(settings, LAB_KEY)


def _setting(
    settings: Settings, folder: Path, stores: "Stores", barrier: "Barrier", options: CrashOptions
) -> "Setting":
    from shardrel.lab.drill import Setting
    from shardrel.lab.fashion import FASHION_MNIST
    from shardrel.lab.processes import IsolatedProcesses

    return Setting(
        folder=folder,
        stores=stores,
        data=options.data or DATA,
        pins=FASHION_MNIST,
        barrier=barrier,
        seed=options.seed,
        global_batch=_BATCH,
        ranks=(options.ranks, options.onto),
        programs=the_programs(),
        processes=lambda logs: IsolatedProcesses(environment=dict(os.environ), logs=logs),
        now=clock.now_utc,
        progress=teller(settings),
    )


def teller(settings: Settings) -> Callable[[str], None]:
    """Says on a terminal how far a drill is."""

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


def _shown(folder: Path, done: "Conducted", left: "Stores | None") -> Result:
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
            *([] if left is None or left.server is None else [("left on the server", left.base)]),
        ],
        tables=[Table(columns=["check", "about"], rows=[(one.check, one.subject) for one in done.problems])]
        if done.problems
        else [],
        status=1 if done.problems else 0,
    )
