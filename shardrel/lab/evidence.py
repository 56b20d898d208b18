"""What a drill leaves behind: closed records without paths, process ids, hosts or times.

Source: schemas/SPEC.md#crash-lab
"""

from typing import Annotated, Literal

import msgspec

from shardrel.lab.barrier import Event
from shardrel.records.fields import Count, DigestField, Name, Positive, Record

PROBE_SAMPLES = 128
EVIDENCE_PAYLOAD = "application/vnd.shardrel.crash-lab+json"

Bits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$", max_length=16)]
Hint = Literal["current", "stale"]
Path = Literal["reference", "recovered"]
Revision = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$", max_length=40)]


class Checkpoint(Record, frozen=True, kw_only=True):
    """An admitted generation; ``stateRoot`` says nothing of who stored which part."""

    generation: Count
    step: Count
    world_size: Positive
    cursor: Count
    ledger: DigestField
    state_root: DigestField


class Lineage(Record, frozen=True, kw_only=True):
    """All generations of one retained store, oldest first."""

    store: Literal["reference", "crash", "continued"]
    checkpoints: tuple[Checkpoint, ...]


class Evaluation(Record, tag_field="schema", tag="training.shard.lab-evaluation.v1", frozen=True, kw_only=True):
    """The complete test split under one checkpoint, and the frozen probe.

    Attributes:
        loss: Bits of the sum of all losses, IEEE 754 double, big-endian.
        logits: Of the first test samples, shape (128, 10): the bytes of their FP32 numbers, little-endian, as hex.
    """

    path: Path
    checkpoint: Checkpoint
    samples: Positive
    correct: Count
    loss: Bits
    logits: str
    logits_digest: DigestField


class Choice(Record, frozen=True, kw_only=True):
    """What the fresh process found and chose.

    Attributes:
        scanned: Generations whose commit records lie in the store, by name.
        hinted: Where the gate's head stood before; null for none.
        helped: The record was installed and not admitted; recovery admitted it.
    """

    scanned: tuple[Count, ...]
    hinted: Count | None
    hint: Hint
    generation: Count
    step: Count
    helped: bool
    passed_over: tuple[Count, ...]
    ledger: DigestField
    state_root: DigestField


class WorkerGroup(Record, frozen=True, kw_only=True):
    """Processes of one job: every one of them was waited for."""

    name: Name
    exits: tuple[int, ...]
    trace: tuple[DigestField, ...]


class Exit(Record, frozen=True, kw_only=True):
    """How an isolated process ended; a signal is a negative status."""

    status: int
    reaped: bool


class Recovery(Record, tag_field="schema", tag="training.shard.lab-recovery.v1", frozen=True, kw_only=True):
    """One crash and what came of it.

    Attributes:
        events: Of the publisher that was killed; the last one was never acknowledged.
        installed: The candidate's commit record had its name when the publisher died.
        admitted: The gate named it.
        replayed: Batches that were trained twice.
        groups: In the order of their runs; a trace is the ledger behind each step.
    """

    barrier: str
    events: tuple[Event, ...]
    unacknowledged: Count
    installed: bool
    admitted: bool
    publisher: Exit
    recovery: Exit
    choice: Choice
    replayed: Count
    groups: tuple[WorkerGroup, ...]
    lineages: tuple[Lineage, ...]


class Pinned(Record, frozen=True, kw_only=True):
    """A file of the data set, by the bytes inside of the compressed one."""

    name: str
    digest: DigestField


class Stated(Record, frozen=True, kw_only=True):
    """A file of the bundle."""

    name: str
    size: Count
    digest: DigestField


class Machine(Record, frozen=True, kw_only=True):
    """What decides bits beside the program."""

    python: str
    torch: str
    kernels: str


class Audit(Record, tag_field="schema", tag="training.shard.lab-audit.v1", frozen=True, kw_only=True):
    """The bundle's last file.

    Attributes:
        ranks: World size before the crash, and that of the resharded rest.
        resources: Digests of the data set's files.
        root: The release that was trained on.
        package: Digest of the installed program's own files.
        revision: Of the clean checkout whose files those are; null where none was named.
    """

    barrier: str
    seed: Count
    global_batch: Positive
    ranks: tuple[Positive, Positive]
    resources: tuple[Pinned, ...]
    root: DigestField
    package: DigestField
    revision: Revision | None
    machine: Machine
    files: tuple[Stated, ...]
    outcome: Literal["exact", "different"]
