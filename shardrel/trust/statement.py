"""in-toto Statement v1 about a root digest. Source: schemas/SPEC.md#attestations

A statement is matched by the ``sha256`` of a subject alone: a name is a label, and any other
algorithm is ignored. Fields that we do not know are ignored, as in-toto asks; our own predicates
are closed records and are decoded strictly by whoever uses them.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shardrel.canonical import json
from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, FormatError, TrustError
from shardrel.records.fields import Record
from shardrel.records.report import STATEMENT_TYPE, Statement
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES
from shardrel.trust.strict import parse_object


def statement(root: str, predicate_type: str, predicate: Record | Mapping[str, Any], name: str) -> bytes:
    """Canonical bytes of a statement whose one subject is the root.

    Args:
        name: Label of the subject, such as the dataset; nothing rests on it.
    """
    subject = {"digest": {"sha256": raw_digest(root).hex()}, "name": name}
    return json.encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [subject],
            "predicateType": predicate_type,
            "predicate": msgspec.to_builtins(predicate),
        }
    )


def read_statement(payload: bytes, root: str, predicate_type: str | None) -> tuple[str, bytes]:
    """Check what a statement is about, and of which kind it is.

    Args:
        predicate_type: The kind that is expected; None accepts any and leaves it to the caller.

    Returns:
        The predicate type and the predicate's bytes as they were signed.

    Raises:
        FormatError: ``format.not-a-record``, ``format.too-large``.
        TrustError: ``trust.subject-mismatch``, ``trust.unknown-predicate``.
    """
    parse_object(payload, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        found = msgspec.json.decode(payload, type=Statement)
    except (msgspec.DecodeError, msgspec.ValidationError) as err:
        raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "the payload is not an in-toto Statement v1") from err
    wanted = raw_digest(root).hex()
    if all(subject.digest.get("sha256") != wanted for subject in found.subject):
        raise TrustError(ErrorCode.TRUST_SUBJECT, "the statement is about another digest", root=root)
    if predicate_type is not None and found.predicate_type != predicate_type:
        raise TrustError(ErrorCode.TRUST_PREDICATE, "the statement is of another kind", expected=predicate_type)
    return found.predicate_type, bytes(found.predicate)
