"""What kind of record some bytes are, for whoever named the wrong digest. Source: schemas/SPEC.md#records"""

import msgspec

from shardrel.canonical import json
from shardrel.errors import FormatError
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord
from shardrel.records.encryption import WrappedKey
from shardrel.records.evolution import SchemaEvolution
from shardrel.records.fence import BenchmarkChunk, TombstoneChunk
from shardrel.records.fields import Record
from shardrel.records.policy import Policy
from shardrel.records.proof import Proof
from shardrel.records.release import Release
from shardrel.records.report import Approval, Report
from shardrel.records.run import RunRecord
from shardrel.records.schema import RecordSchema
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.records.sweep import SweepPlan
from shardrel.records.transition import Operation, Transition

# Those that may lie under their digest, in the words of people.
KINDS: dict[type[Record], str] = {
    Snapshot: "a snapshot",
    Release: "a root manifest",
    RecordSchema: "a record schema",
    MemberIndex: "a member index",
    SchemaEvolution: "a comparison of record schemas",
    WrappedKey: "a wrapped key",
    TombstoneChunk: "a piece of the tombstone log",
    BenchmarkChunk: "a piece of the benchmark log",
    Policy: "a policy",
    Report: "a verification report",
    Approval: "an approval",
    Proof: "a proof",
    RunRecord: "a run record",
    CommitRecord: "a commit record of a checkpoint",
    CheckpointManifest: "the manifest of a checkpoint",
    Operation: "an operation of the gate",
    Transition: "a transition of the gate",
    SweepPlan: "the plan of a collection",
}
_BY_TAG = {kind.__struct_config__.tag: kind for kind in KINDS}


class _Named(msgspec.Struct):
    schema: str


def kind_of(data: bytes) -> type[Record] | None:
    """The kind of a record, all of whose bytes were read; None for what is no sound record of a known kind."""
    try:
        kind = _BY_TAG.get(msgspec.json.decode(data, type=_Named).schema)
        if kind is not None:
            json.decode(data, kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError, FormatError):
        return None
    return kind
