"""Which generation a run goes on from. Source: schemas/SPEC.md#checkpoints.

The gate's head and commit records by name decide; nothing is listed, and no alias is read.
"""

from dataclasses import dataclass

from shardrel.checkpoint.commits import RunState, help_installed, read_run
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import Installed, preflight, read_commit
from shardrel.errors import ErrorCode, FormatError, IntegrityError, NotFoundError, RefusedError
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.store.port import Store
from shardrel.trust.signer import Signer

# Bytes that are lost or damaged make an older generation the newest complete one. Another schema or identity
# doesn't: going back would hide that this program, or this run, is the wrong one.
PASSED_OVER = frozenset(
    {
        ErrorCode.CHECKPOINT_MISSING,
        ErrorCode.CHECKPOINT_BYTES,
        ErrorCode.CHECKPOINT_GAP,
        ErrorCode.CHECKPOINT_OVERLAP,
        ErrorCode.CHECKPOINT_CUT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A newer generation that was not complete and sound."""

    generation: int
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The generation to restore.

    Attributes:
        helped: A commit record was installed and not admitted; its admission was submitted again and won.
        passed_over: Newest first.
    """

    installed: Installed
    manifest: CheckpointManifest
    helped: bool
    passed_over: tuple[PassedOver, ...]


def recover(store: Store, dataset: str, expected: Expected, signer: Signer) -> Selected | None:
    """Select the newest complete generation of a run; null when the run has no checkpoint.

    1. Read the run in the gate. 2. Probe head + 1 by name and help it. 3. From the head, preflight; pass over what is
    lost or damaged.

    Raises:
        RefusedError, FormatError: The head's code when no generation can be restored.

    Effects: may admit one installed commit record.
    Ranks: the coordinator.
    """
    run = read_run(store, dataset, expected.run_id)
    helped = help_installed(store, dataset, run, signer)
    if helped is not None:
        run = helped
    return _newest(store, run, expected, helped is not None)


def _newest(store: Store, run: RunState, expected: Expected, helped: bool) -> Selected | None:
    if run.head is None:
        return None
    passed: list[PassedOver] = []
    first: RefusedError | None = None
    digest: str | None = run.head.commit
    for generation in range(run.head.generation, -1, -1):
        try:
            installed = _admitted(store, run.run_id, generation, digest)
            manifest = preflight(store, installed.record, expected)
        except RefusedError as err:
            if err.code not in PASSED_OVER:
                raise
            first = first or err
            passed.append(PassedOver(generation=generation, code=err.code))
            digest = _parent(store, run.run_id, generation, digest)
            continue
        return Selected(installed=installed, manifest=manifest, helped=helped, passed_over=tuple(passed))
    assert first is not None
    raise first


def _admitted(store: Store, run: str, generation: int, digest: str | None) -> Installed:
    """The commit record with the digest that the chain from the head names; null knows none."""
    installed = read_commit(store, run, generation)
    if installed is None:
        raise _lost(ErrorCode.CHECKPOINT_MISSING, generation)
    if digest is not None and installed.digest != digest:
        raise _lost(ErrorCode.CHECKPOINT_BYTES, generation)
    return installed


def _parent(store: Store, run: str, generation: int, digest: str | None) -> str | None:
    """Digest of the parent as this generation's record names it; null where that record is lost."""
    try:
        return _admitted(store, run, generation, digest).record.parent
    except (RefusedError, FormatError, NotFoundError, IntegrityError):
        return None


def _lost(code: ErrorCode, generation: int) -> RefusedError:
    return RefusedError(code, "the commit record of an admitted generation is lost or damaged", generation=generation)
