"""Releases of training shards that are provable, and whose use is exact.

Importing this package is light: it loads neither torch nor boto3 nor the programs around it. What a
training script needs is in ``shardrel.train``; the command line is ``shardrel.cli``.
"""

from shardrel.digest import Digest, parse_digest
from shardrel.errors import (
    ConflictError,
    ErrorCode,
    FormatError,
    IntegrityError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    RunFailedError,
    ShardrelError,
    TrustError,
    UnavailableError,
)

__version__ = "0.1.0"

__all__ = [
    "ConflictError",
    "Digest",
    "ErrorCode",
    "FormatError",
    "IntegrityError",
    "InternalError",
    "InvalidInputError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RefusedError",
    "RunFailedError",
    "ShardrelError",
    "TrustError",
    "UnavailableError",
    "__version__",
    "parse_digest",
]
