"""``shardrel drill``: what can go wrong, done on purpose on a store of its own."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel import clock
from shardrel.cli import drill_crash, drill_power
from shardrel.cli.drill_crash import CrashOptions
from shardrel.cli.drill_power import PowerOptions
from shardrel.cli.output import Result, Table, meter
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from shardrel.drills.drill import Drill, Outcome
    from shardrel.store.port import Store

_PANEL = "The drill crash"
_POWER_PANEL = "The drill power-loss"

_BY_THEMSELVES = {
    drill_crash.NAME: "A process is killed while it commits a checkpoint, and what comes after is compared bit for bit.",
    drill_power.NAME: "Every state that a loss of power may leave a local store in is recovered from.",
}
"""Not among ``all``: they take minutes, and torch or strace."""


def drill(
    settings: Settings,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A drill, or all; without one: what there is.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the scratch store, to look at it.")] = False,
    barrier: Annotated[
        str | None,
        typer.Option(
            "--barrier",
            metavar="POINT",
            help="Where to kill: commit-after-file-fsync, commit-after-rename, store-N-before|after; on a server "
            "commit-before-put, commit-after-put, request-N-before|after.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The bundle; has to be fresh.", rich_help_panel=_PANEL),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="The four files of Fashion-MNIST.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of order and model.", rich_help_panel=_PANEL)
    ] = 0,
    ranks: Annotated[
        int, typer.Option("--ranks", metavar="N", min=1, max=6, help="Before the crash.", rich_help_panel=_PANEL)
    ] = 4,
    onto: Annotated[
        int, typer.Option("--onto", metavar="N", min=1, max=6, help="Ranks after resharding.", rich_help_panel=_PANEL)
    ] = 3,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="DIR", help="A clean checkout of the program.", rich_help_panel=_PANEL),
    ] = None,
    expected_revision: Annotated[
        str | None,
        typer.Option("--expected-revision", metavar="SHA", help="Its commit, 40 digits.", rich_help_panel=_PANEL),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="TRANSACTION", help="Judge one transaction alone.", rich_help_panel=_POWER_PANEL
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            "--every", min=1, metavar="N", help="Only every N-th state; default all.", rich_help_panel=_POWER_PANEL
        ),
    ] = None,
    leave_out: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            metavar="KIND",
            help="Forget what was made durable: file or folder. The drill has to fail then.",
            rich_help_panel=_POWER_PANEL,
        ),
    ] = None,
) -> Result:
    """Break things on purpose on a scratch store, and see that each fault is answered by its code.

    Everything lies in a fresh folder or prefix, drill-ID, below --store and is taken away again; nothing that is
    there is touched. The keys are made for the drills and never saved.

    The drill "crash" is another kind: real processes train on Fashion-MNIST, the one that commits a checkpoint is
    killed at --barrier, and what comes after is compared bit for bit with what was never interrupted. Without --data
    the four files are those in /usr/share/datasets/fashion-mnist.

    So is "power-loss": system calls of a local store are recorded, by strace, and every state that a loss of power may
    leave its disk in, at each of them, is rebuilt and recovered from.
    """
    from shardrel.drills.catalogue import DRILLS, chosen
    from shardrel.drills.cleanup import missing_parents
    from shardrel.store.open import open_store

    crash = CrashOptions(
        barrier=barrier, out=out, data=data, seed=seed, ranks=ranks, onto=onto, repository=repository,
        revision=expected_revision,
    )  # fmt: skip
    if name == drill_crash.NAME:
        return drill_crash.crash(settings, crash)
    power = PowerOptions(only=only, every=every, leave_out=leave_out)
    if name == drill_power.NAME and not crash.given:
        return drill_power.power_loss(settings, power, drill_crash.teller(settings))
    if crash.given or power.given:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "these options belong to another drill: see shardrel drill --help"
        )
    if name is None:
        return _listed(DRILLS)
    drills = chosen(name)
    url = f"{settings.store.rstrip('/')}/drill-{clock.fresh_id()[:12]}"
    store = open_store(url, endpoint_url=settings.endpoint_url)
    parents = missing_parents(store)
    try:
        outcomes = _conducted(drills, _probed(store), settings)
    finally:
        left = keep or not _taken_away(store, parents)
    return _shown(outcomes, store.url, left=left)


def _probed(store: "Store") -> "Store":
    """A drill on a store that breaks its promises would say nothing about the product.

    Raises:
        RefusedError: ``storage.not-conformant``.
    """
    from shardrel.store.probe import probe
    from shardrel.store.verdicts import speaking

    found = probe(store)
    found.require()
    return speaking(store, quoted_tokens=found.quoted_tokens)


def _conducted(drills: "Sequence[Drill]", store: "Store", settings: Settings) -> "list[Outcome]":
    from shardrel.cli.drill_tools import the_tools
    from shardrel.drills.conduct import conduct
    from shardrel.drills.scratch import Scratch, scratch_keys

    with (
        tempfile.TemporaryDirectory(prefix="shardrel-drill-") as folder,
        meter("drill", quiet=settings.as_json) as progress,
    ):
        scratch = Scratch(store=store, folder=Path(folder), keys=scratch_keys(), tools=the_tools(), now=clock.now_utc)
        return list(conduct(drills, scratch, progress))


def _taken_away(store: "Store", parents: list[Path]) -> bool:
    """Whether the scratch store is gone; the verdict stands either way."""
    from shardrel.drills.cleanup import take_away

    try:
        return take_away(store, parents)
    except UnavailableError:
        return False


def _listed(drills: "Sequence[Drill]") -> Result:
    own = list(_BY_THEMSELVES.items())
    return Result(
        data={
            "drills": [{"name": d.name, "about": d.about, "expected": d.expected.value} for d in drills],
            "byThemselves": [{"name": name, "about": about} for name, about in own],
        },
        headline=f"{len(drills)} drills, and {len(own)} that run by themselves; run: shardrel drill NAME, or all",
        tables=[
            Table(columns=["name", "about"], rows=[(d.name, d.about) for d in drills]),
            Table(title="By themselves, and not with all", columns=["name", "about"], rows=own),
        ],
    )


def _shown(outcomes: "Sequence[Outcome]", url: str, *, left: bool) -> Result:
    failed = [outcome.drill.name for outcome in outcomes if not outcome.ok]
    return Result(
        data={
            "drills": [
                {
                    "name": o.drill.name,
                    "expected": o.drill.expected.value,
                    "observed": o.observed,
                    "ok": o.ok,
                    "found": [str(code) for code in o.found],
                    "fault": o.drill.fault,
                }
                for o in outcomes
            ],
            "scratch": url if left else None,
        },
        headline=_headline(len(outcomes), failed),
        facts=[("scratch store", url)] if left else [],
        tables=[_table(outcomes)],
        status=1 if failed else 0,
    )


def _headline(count: int, failed: list[str]) -> str:
    if failed:
        return f"{len(failed)} of {count} drills FAILED: {', '.join(failed)}"
    return f"{count} drills: every fault was answered" if count > 1 else "the fault was answered"


def _table(outcomes: "Sequence[Outcome]") -> Table:
    rows = [("ok" if o.ok else "FAILED", o.drill.name, o.drill.expected, o.observed, o.drill.fault) for o in outcomes]
    return Table(columns=["", "drill", "expected", "observed", "fault"], rows=rows)
