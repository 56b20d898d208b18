"""Which generation a run goes on from. Source: schemas/SPEC.md#checkpoints.

The gate's head and commit records by name decide; nothing is listed, and no alias is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from shardrel.canonical import json
from shardrel.checkpoint.commits import RunState, help_installed, read_run
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.objects import ObjectReader
from shardrel.checkpoint.preflight import Installed, decode_commit, preflight
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.log import read_entries
from shardrel.records.checkpoint import CheckpointManifest
from shardrel.records.transition import AdmitCheckpoint
from shardrel.store.layout import commit_key
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
        ErrorCode.CHECKPOINT_REPLICA,
        ErrorCode.CHECKPOINT_CUT,
    }
)


NONE_REFUSED: Mapping[int, ErrorCode] = MappingProxyType({})


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


def recover(
    store: Store,
    dataset: str,
    expected: Expected,
    signer: Signer,
    *,
    replicas: Sequence[Store] = (),
    refused: Mapping[int, ErrorCode] = NONE_REFUSED,
    every_byte: bool = True,
) -> Selected | None:
    """Select the newest complete generation of a run; null when the run has no checkpoint.

    1. Read the run in the gate. 2. Probe head + 1 by name and help it. 3. From the head, preflight; pass over what is
    lost or damaged.

    Args:
        store: Where the run's objects are.
        dataset: The gate of the run.
        expected: What the checkpoint must be of.
        signer: A key of the runner's role.
        replicas: Stores that are asked for what is absent or damaged in the run's own.
        refused: Generations that somebody found to be lost or damaged, and why.
        every_byte: Whether preflight reads all objects.

    Raises:
        RefusedError, FormatError: The head's code when no generation can be restored.

    Effects: may admit one installed commit record.
    Ranks: the coordinator.
    """
    run = read_run(store, dataset, expected.run_id)
    helped = help_installed(store, dataset, run, signer)
    if helped is not None:
        run = helped
    look = _Look(expected=expected, objects=ObjectReader(store, replicas), refused=refused, every_byte=every_byte)
    return _newest(store, dataset, run, look, helped is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    expected: Expected
    objects: ObjectReader
    refused: Mapping[int, ErrorCode]
    every_byte: bool

    def at(self, installed: Installed) -> CheckpointManifest:
        """The manifest of a sound generation."""
        generation = installed.record.generation
        if generation in self.refused:
            raise RefusedError(
                self.refused[generation], "a generation was found to be lost or damaged", generation=generation
            )
        return preflight(self.objects, installed.record, self.expected, every_byte=self.every_byte)


def _newest(store: Store, dataset: str, run: RunState, look: _Look, helped: bool) -> Selected | None:
    if run.head is None:
        return None
    passed: list[PassedOver] = []
    errors: list[RefusedError] = []
    digest: str | None = run.head.commit
    generation = run.head.generation
    while digest is not None:
        try:
            installed = read_admitted(store, run.run_id, generation, digest)
            manifest = look.at(installed)
            return Selected(installed=installed, manifest=manifest, helped=helped, passed_over=tuple(passed))
        except RefusedError as err:
            if err.code not in PASSED_OVER:
                raise
            errors.append(err)
            passed.append(PassedOver(generation=generation, code=err.code))
        digest = _parent(store, dataset, run.run_id, generation, digest)
        generation -= 1
    raise errors[0]


def read_admitted(store: Store, run: str, generation: int, digest: str) -> Installed:
    """The commit record that the gate admitted under this digest.

    Raises:
        RefusedError: ``checkpoint.missing-payload`` where it is lost, ``checkpoint.bytes`` where it is another.
        FormatError: ``checkpoint.unsupported-schema``.
    """
    stored = store.read(commit_key(run, generation), max_bytes=json.MAX_RECORD_BYTES)
    if stored is None:
        raise _lost(ErrorCode.CHECKPOINT_MISSING, generation)
    if digest_of(stored.data) != digest:
        raise _lost(ErrorCode.CHECKPOINT_BYTES, generation)
    return decode_commit(stored.data, generation)


def _parent(store: Store, dataset: str, run: str, generation: int, digest: str) -> str | None:
    """Digest of the generation before: as this one's record names it, or the gate's history where that is lost."""
    try:
        return read_admitted(store, run, generation, digest).record.parent
    except RefusedError:
        return _commit_of(admitted_in_history(store, dataset, run).get(generation - 1))


def admitted_in_history(store: Store, dataset: str, run: str) -> dict[int, AdmitCheckpoint]:
    """What the gate admitted of a run, by generation, as its checked history tells.

    One read a transition.

    Raises:
        IntegrityError: ``gate.history-broken``.
    """
    requests = [entry.request for entry in read_entries(store, dataset)]
    return {r.generation: r for r in requests if isinstance(r, AdmitCheckpoint) and r.run == run}


def _commit_of(admission: AdmitCheckpoint | None) -> str | None:
    return None if admission is None else admission.commit


def _lost(code: ErrorCode, generation: int) -> RefusedError:
    return RefusedError(code, "the commit record of an admitted generation is lost or damaged", generation=generation)
