"""A refusal of the rule as the error that callers see: the category says what to do next."""

from shardrel.errors import (
    ConflictError,
    ErrorCode,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    ShardrelError,
    TrustError,
)
from shardrel.gate.facts import Refuse

_NOT_FOUND = frozenset(
    {
        ErrorCode.GATE_ABSENT,
        ErrorCode.GATE_NO_ALIAS,
        ErrorCode.GATE_NO_RUN,
        ErrorCode.GATE_NO_PUBLICATION,
        ErrorCode.GATE_UNKNOWN_ROOT,
    }
)
_CONFLICT = frozenset(
    {ErrorCode.GATE_GENERATION, ErrorCode.GATE_ASSUMPTION, ErrorCode.FENCE_GAP, ErrorCode.FENCE_STAGED}
)


def as_error(refusal: Refuse) -> ShardrelError:
    """The error to raise for a refusal; its code and context stay."""
    return category_of(refusal.code)(refusal.code, refusal.message, **refusal.context)


def category_of(code: ErrorCode) -> type[ShardrelError]:
    """The kind of error that a refusal with this code becomes."""
    if code in _NOT_FOUND:
        return NotFoundError
    if code in _CONFLICT:
        return ConflictError
    if code.startswith("trust."):
        return TrustError
    if code.startswith("input."):
        return InvalidInputError
    return RefusedError
