"""A whole drill, from a fresh folder to a signed bundle. Source: schemas/SPEC.md#crash-lab."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardrel.digest import Digest
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.bundle import STORES, encode, install, state
from shardrel.lab.drill import Drill, Observed, Setting
from shardrel.lab.evidence import Audit, Pinned
from shardrel.lab.installed import machine
from shardrel.lab.judge import Problem, judge
from shardrel.trust.signer import Signer

_WORKING = ("cache", "handoff", "keys", "logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted:
    """A drill that came to its end; ``problems`` are facts that do not fit."""

    observed: Observed
    audit: Audit
    problems: tuple[Problem, ...]


def make_folder(folder: Path) -> None:
    """The fresh folder of a drill. A failed one is looked at, and never gone on with.

    Raises:
        InvalidInputError: ``input.invalid`` where there is something.

    Effects: makes it, for its owner alone.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the folder of a drill has to be fresh: a drill is never resumed",
            folder=folder.name,
        ) from err


def conduct(setting: Setting, signer: Signer, revision: str | None, package: Callable[[], Digest]) -> Conducted:
    """Make the drill and its bundle.

    Args:
        setting: What to do; its folder was made by ``make_folder``.
        signer: Of the bundle.
        revision: That the installed files were found to be of.
        package: Digest of the installed files; asked before and after.

    Raises:
        ShardrelError: As ``Drill.observe``; what was made stays.

    Effects: the bundle, and nothing else is left.
    """
    before = package()
    observed = Drill(setting).observe()
    problems = judge(observed.reference, observed.recovered, observed.recovery, setting.ranks)
    if package() != before:
        problems.append(Problem(check="package", subject="changed meanwhile"))
    setting.stores.settle(setting.folder / STORES)
    files = encode(observed.reference, observed.recovered, observed.recovery)
    audit = Audit(
        barrier=setting.barrier.name,
        seed=setting.seed,
        global_batch=setting.global_batch,
        ranks=setting.ranks,
        resources=tuple(Pinned(name=one.name, digest=one.digest) for one in setting.pins.resources),
        root=observed.root,
        package=before,
        revision=revision,
        machine=machine(),
        files=tuple(state(name, data) for name, data in files),
        outcome="different" if problems else "exact",
    )
    if not problems:
        for name in _WORKING:
            shutil.rmtree(setting.folder / name)
    install(setting.folder, files, audit, signer)
    return Conducted(observed=observed, audit=audit, problems=tuple(problems))
