"""Errors: the category says what the caller should do, the code says what happened.

    ShardrelError
    ├── InvalidInputError     fix the call or the file                            exit 2
    ├── FormatError           bytes are not a record that this version knows      exit 1
    ├── IntegrityError        bytes are not what their descriptor promises        exit 1
    ├── TrustError            signature, threshold, subject or predicate is wrong exit 1
    ├── NotFoundError         no such object, alias, run or commit record         exit 1
    ├── RefusedError          the gate says no                                    exit 1
    ├── ConflictError         somebody else moved first: read again, then decide  exit 1
    ├── RunFailedError        ranks disagree, are missing or failed               exit 1, or that of its cause
    ├── UnavailableError      store or peer does not answer: back off, try again  exit 3
    ├── OutcomeUnknownError   a write may or may not have landed: run it again    exit 4
    ├── StoppedError          a person stopped it: run it again to go on          exit 130
    └── InternalError         a bug of ours                                       exit 70

Codes are a published, append-only list (``schemas/error-codes.json``); messages are for people
and may change. A message or a context never holds sample content or key material.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class ErrorCode(StrEnum):
    """What happened. The part before the first dot names the subject."""

    # The call, or a file that a person handed in.
    INPUT_INVALID = "input.invalid"
    INPUT_NO_SUCH_FILE = "input.no-such-file"
    INPUT_UNKNOWN_FORMAT = "input.unknown-format"
    INPUT_EMPTY_FILE = "input.empty-file"
    INPUT_TRUNCATED = "input.truncated"
    INPUT_CORRUPT = "input.corrupt"
    INPUT_JSON = "input.json-line"
    INPUT_UTF8 = "input.invalid-utf8"
    INPUT_NO_RECORDS = "input.no-records"
    INPUT_NO_PAYLOAD = "input.no-payload"
    INPUT_NO_SUCH_COLUMN = "input.no-such-column"
    INPUT_COLUMN_TYPE = "input.column-type"
    INPUT_RESERVED_COLUMN = "input.reserved-column"
    INPUT_NULL_ID = "input.null-id"
    INPUT_DUPLICATE_ID = "input.duplicate-id"
    INPUT_NULL_FIELD = "input.null-tuple-field"
    INPUT_FENCE_ENTRY = "input.fence-entry"
    INPUT_POLICY = "input.policy"
    INPUT_KEY = "input.key"
    INPUT_NOT_NULL = "input.null-not-allowed"
    INPUT_FIELD_LENGTH = "input.tuple-field-length"
    INPUT_TOKENS = "input.token-count"
    INPUT_RENAME = "input.schema-rename"
    INPUT_PICKLE = "input.pickle-not-data"

    # Record schemas.
    SCHEMA_UNSUPPORTED = "schema.unsupported-type"
    SCHEMA_DUPLICATE_FIELD = "schema.duplicate-field"
    SCHEMA_INT96 = "schema.int96"
    SCHEMA_CONFLICT = "schema.conflict"

    # Records of the protocol.
    FORMAT_NOT_CANONICAL = "format.not-canonical"
    FORMAT_NOT_A_RECORD = "format.not-a-record"
    FORMAT_UNKNOWN_SCHEMA = "format.unknown-schema"
    FORMAT_TOO_LARGE = "format.too-large"

    # Objects in the store.
    STORAGE_ABSENT = "storage.object-absent"
    STORAGE_SIZE = "storage.size-mismatch"
    STORAGE_DIGEST = "storage.digest-mismatch"
    STORAGE_TOO_LARGE = "storage.too-large"
    STORAGE_KEY = "storage.bad-key"
    STORAGE_UNSAFE_PATH = "storage.unsafe-path"
    STORAGE_NOT_CONFORMANT = "storage.not-conformant"

    # Findings inside a shard.
    PARQUET_STRUCTURE = "parquet.structure"
    PARQUET_FOOTER = "parquet.footer"
    PARQUET_PAGE_CHECKSUM = "parquet.page-checksum"
    PARQUET_PAGE_CHECKSUM_ABSENT = "parquet.page-checksum-absent"
    PARQUET_EXPANSION = "parquet.expansion"
    PARQUET_PARAMETERS = "parquet.parameters"
    ENCRYPTION_KEY = "encryption.key"
    ENCRYPTION_AAD = "encryption.aad"
    ENCRYPTION_READER = "encryption.reader"
    ENCRYPTION_KEY_VERSION = "encryption.key-version"
    ENCRYPTION_WRAPPED_KEY = "encryption.wrapped-key"
    ENCRYPTION_KEY_CHECK = "encryption.key-check"
    ENCRYPTION_PLAINTEXT = "encryption.plaintext"
    RECORD_SCHEMA = "record.schema-mismatch"
    RECORD_COUNT = "record.count-mismatch"
    RECORD_ORDER = "record.order"
    RECORD_UTF8 = "record.invalid-utf8"
    RECORD_TUPLE_FIELD = "record.tuple-field"
    TOKEN_COUNT = "record.token-count-mismatch"
    LOGICAL_BYTES = "record.logical-bytes-mismatch"
    LOGICAL_DIGEST = "logical.digest-mismatch"
    MEMBER_SET_DIGEST = "member-set.digest-mismatch"

    # Findings about the membership and the release.
    MEMBER_MISSING = "member.missing"
    MEMBER_EXTRA = "member.extra"
    MEMBER_DUPLICATE = "member.duplicate"
    MEMBER_CONTENT = "member.content-substituted"
    MEMBER_SOURCE_ID = "member.source-id-substituted"
    MEMBER_SOURCE_VERSION = "member.source-version-substituted"
    MEMBER_SCHEMA = "member.schema-substituted"
    MEMBER_SPLIT = "member.split-conflict"
    ORDERED_ROOT = "root.ordered-root-mismatch"
    ROOT_TOTALS = "root.totals-mismatch"
    ROOT_SHARDS = "root.shard-list"
    ROOT_DATASET = "root.wrong-dataset"
    ROOT_AHEAD = "root.watermark-above-gate"
    ROOT_SNAPSHOT = "root.snapshot-mismatch"
    SNAPSHOT_INVALID = "snapshot.invalid"
    MEMBER_INDEX = "member-index.mismatch"
    TOMBSTONE_HIT = "tombstone.hit"
    BENCHMARK_HIT = "benchmark.hit"
    PROVENANCE_ABSENT = "provenance.absent"
    PROVENANCE_INVALID = "provenance.invalid"
    EVOLUTION_MISMATCH = "evolution.report-mismatch"
    EVOLUTION_NOT_ATTESTED = "evolution.not-attested"
    EVOLUTION_ABSENT = "evolution.absent"
    EVOLUTION_PREVIOUS = "evolution.previous-not-admitted"
    EVOLUTION_CHANGE = "evolution.change-not-allowed"

    # Sources against their snapshot.
    SOURCE_MISMATCH = "source.snapshot-mismatch"
    SOURCE_CHANGED = "source.changed-while-read"

    # Trust.
    TRUST_SIGNATURE = "trust.bad-signature"
    TRUST_THRESHOLD = "trust.threshold-not-met"
    TRUST_SUBJECT = "trust.subject-mismatch"
    TRUST_PREDICATE = "trust.unknown-predicate"
    TRUST_PAYLOAD_TYPE = "trust.payload-type"
    TRUST_ROLE = "trust.role"
    TRUST_KEY_FILE = "trust.key-file"
    TRUST_PASSPHRASE = "trust.passphrase"
    TRUST_SIGNER = "trust.signer"

    # Proofs about one sample.
    PROOF_ROOT = "proof.wrong-root"
    PROOF_SAMPLE = "proof.other-sample"
    PROOF_INCOMPLETE = "proof.incomplete"
    PROOF_POSITION = "proof.position"
    PROOF_ORDER = "proof.order"
    PROOF_NODES = "proof.node-count"
    PROOF_TREE = "proof.tree-mismatch"
    PROOF_WORDS = "proof.words"

    # The gate.
    GATE_ABSENT = "gate.absent"
    GATE_WRONG = "gate.wrong-gate"
    GATE_GENERATION = "gate.generation-moved"
    GATE_ASSUMPTION = "gate.assumption-false"
    GATE_NOT_VERIFIED = "gate.not-verified"
    GATE_FENCES = "gate.not-verified-at-fences"
    GATE_NOT_APPROVED = "gate.not-approved"
    GATE_INVALID_ROOT = "gate.root-invalid"
    GATE_UNKNOWN_ROOT = "gate.unknown-root"
    GATE_NO_ALIAS = "gate.no-such-alias"
    GATE_NO_RUN = "gate.no-such-run"
    GATE_NO_PUBLICATION = "gate.no-such-publication"
    GATE_PUBLICATION_EXISTS = "gate.publication-exists"
    GATE_EXISTS = "gate.exists"
    GATE_RUN_EXISTS = "gate.run-exists"
    GATE_RUN_ENDED = "gate.run-ended"
    GATE_CHECKPOINT_ORDER = "gate.checkpoint-order"
    GATE_OPERATION_REUSED = "gate.operation-reused"
    GATE_LIMIT = "gate.limit"
    GATE_HISTORY = "gate.history-broken"
    FENCE_GAP = "fence.gap"
    FENCE_STEP = "fence.step-too-large"
    FENCE_CONFLICT = "fence.entry-conflict"
    FENCE_STAGED = "fence.staged-conflict"
    RETENTION_SWEEP = "retention.sweep-open"
    RETENTION_PINNED = "retention.pinned"
    PERMIT_CLOSED = "permit.closed"
    PERMIT_RECHECK = "permit.recheck-needed"
    PERMIT_HIT = "permit.root-has-hit"
    RETENTION_SWEPT = "retention.swept"

    # Runs and checkpoints.
    RUN_ROOT_DISAGREEMENT = "run.root-disagreement"
    RUN_COVERAGE = "run.coverage"
    RUN_TIMEOUT = "run.barrier-timeout"
    RUN_RANK_FAILED = "run.rank-failed"
    RUN_VERSION = "run.version-disagreement"
    RUN_SEAT_TAKEN = "run.seat-taken"
    CACHE_CORRUPT = "cache.corrupt"
    CHECKPOINT_NONE = "checkpoint.none"
    CHECKPOINT_MISSING = "checkpoint.missing-payload"
    CHECKPOINT_BYTES = "checkpoint.bytes"
    CHECKPOINT_GAP = "checkpoint.gap"
    CHECKPOINT_OVERLAP = "checkpoint.overlap"
    CHECKPOINT_CUT = "checkpoint.cut"
    CHECKPOINT_SCHEMA = "checkpoint.unsupported-schema"
    CHECKPOINT_IDENTITY = "checkpoint.identity"
    CHECKPOINT_STATE_TYPE = "checkpoint.unsupported-state"
    CHECKPOINT_REPLICA = "checkpoint.replica"

    # The world outside.
    STORE_UNAVAILABLE = "store.unavailable"
    STORE_DENIED = "store.access-denied"
    STORE_CONTENTION = "store.contention"
    SIGNER_UNAVAILABLE = "signer.unavailable"
    SIGNER_DENIED = "signer.access-denied"
    SIGNER_THROTTLED = "signer.throttled"
    SIGNER_AWAITED = "signer.awaited"
    KMS_UNAVAILABLE = "kms.unavailable"
    KMS_DENIED = "kms.access-denied"
    KMS_THROTTLED = "kms.throttled"
    KMS_KEY = "kms.key"
    OUTCOME_CREATE = "outcome-unknown.create"
    OUTCOME_SWAP = "outcome-unknown.swap"
    CALL_INTERRUPTED = "call.interrupted"
    INTERNAL = "internal.bug"


class ShardrelError(Exception):
    """Base of every error that crosses a module border.

    Attributes:
        code: What happened, stable.
        message: A sentence for people that says what to do.
        context: Facts for machines: digests, counts, names, row numbers. Never sample content.
    """

    exit_status: int = 70

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        /,
        **context: str | int | list[str] | Mapping[str, int] | None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.context = context

    def __reduce__(self) -> tuple[Any, ...]:
        """Itself again on another rank: torch moves what a rank raised between ranks in its own way."""
        return _again, (type(self), self.code, self.message, dict(self.context), self.exit_status)


def _again(
    kind: type[ShardrelError], code: ErrorCode, message: str, context: dict[str, Any], exit_status: int
) -> ShardrelError:
    made = kind(code, message, **context)
    made.exit_status = exit_status
    return made


class InvalidInputError(ShardrelError, ValueError):
    exit_status = 2


class FormatError(ShardrelError):
    exit_status = 1


class IntegrityError(ShardrelError):
    exit_status = 1


class TrustError(ShardrelError):
    exit_status = 1


class NotFoundError(ShardrelError):
    exit_status = 1


class RefusedError(ShardrelError):
    exit_status = 1


class ConflictError(ShardrelError):
    exit_status = 1


class RunFailedError(ShardrelError):
    # That of what ended the first rank that failed, where one did; 3 where ranks are gone or silent.
    exit_status = 1

    def ending_with(self, exit_status: int) -> Self:
        """Itself, with the exit status of its cause."""
        self.exit_status = exit_status
        return self


class UnavailableError(ShardrelError):
    exit_status = 3


class OutcomeUnknownError(ShardrelError):
    exit_status = 4


class StoppedError(ShardrelError):
    # What shells give to whatever a SIGINT ended: loops and make stop at it.
    exit_status = 130


class InternalError(ShardrelError):
    exit_status = 70


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def unwritable(path: Path, err: OSError) -> ShardrelError:
    """Why a file that was asked for is not there.

    Returns:
        ``store.unavailable`` where the disk is full or broken, so that the same call may do later; else
        ``input.invalid``.
    """
    reason = os.strerror(err.errno) if err.errno else type(err).__name__
    message = f"{path} can't be written: {reason}"
    if err.errno in _FULL:
        return UnavailableError(ErrorCode.STORE_UNAVAILABLE, message, path=str(path))
    return InvalidInputError(ErrorCode.INPUT_INVALID, message, path=str(path))


_SHOWN_COLUMNS = 30


def no_such_column(place: str, name: str, there: Sequence[str]) -> InvalidInputError:
    """A column that was asked for and is not there, beside those that are.

    Args:
        place: What lacks it, as the subject of a sentence.
        name: What was asked for.
        there: Names of the columns that it has.
    """
    more = len(there) - _SHOWN_COLUMNS
    rest = f" and {more} more" if more > 0 else ""
    listed = ", ".join(one[:64] for one in there[:_SHOWN_COLUMNS])
    message = f"{place} has no column {name!r}; it has: {listed}{rest}"
    return InvalidInputError(ErrorCode.INPUT_NO_SUCH_COLUMN, message, column=name, columns=list(there[:_SHOWN_COLUMNS]))
