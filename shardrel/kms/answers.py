"""What an answer of AWS KMS to GetPublicKey or Sign means. Pure. Source: schemas/SPEC.md#signers

Neither has an effect that anybody could see twice, so whatever was not answered is asked again: an unknown
outcome of a signature is none.
"""

from dataclasses import dataclass

from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, TrustError, UnavailableError

NO_ANSWER = "NoAnswer"
NO_CREDENTIALS = "NoCredentials"

_THROTTLED = frozenset({"ThrottlingException", "Throttling", "LimitExceededException", "TooManyRequestsException"})
_SILENT = frozenset(
    {NO_ANSWER, "KeyUnavailableException", "DependencyTimeoutException", "KMSInternalException", "InternalFailure"}
)
_DENIED = frozenset(
    {
        NO_CREDENTIALS,
        "AccessDeniedException",
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "ExpiredTokenException",
        "NotAuthorized",
        "OptInRequired",
    }
)
_NO_SUCH_KEY = frozenset({"NotFoundException", "InvalidArnException", "ValidationException"})
_CANNOT_SIGN = frozenset(
    {
        "DisabledException",
        "KMSInvalidStateException",
        "InvalidKeyUsageException",
        "UnsupportedOperationException",
        "InvalidGrantTokenException",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is not success.

    Attributes:
        status: HTTP status; 0 without one.
        code: The service's own name for it.
    """

    status: int
    code: str

    @property
    def ask_again(self) -> bool:
        """Whether the same request may be answered later."""
        return self.throttled or self.silent

    @property
    def throttled(self) -> bool:
        """Whether the service has had too many requests."""
        return self.code in _THROTTLED or self.status == 429

    @property
    def silent(self) -> bool:
        """Whether the service did not come to an answer."""
        return self.code in _SILENT or self.status >= 500


def as_error(refusal: Refusal, key: str) -> ShardrelError:
    """The error for a caller who cannot go on: of the category that says what to do."""
    if refusal.throttled:
        return UnavailableError(
            ErrorCode.SIGNER_THROTTLED, "the KMS has too many requests; run the same command again", key=key
        )
    if refusal.code in _DENIED:
        return UnavailableError(
            ErrorCode.SIGNER_DENIED, "the KMS does not let these credentials use the key", key=key, reason=refusal.code
        )
    if refusal.code in _NO_SUCH_KEY:
        return InvalidInputError(ErrorCode.INPUT_KEY, "the KMS has no such key", key=key, reason=refusal.code)
    if refusal.code in _CANNOT_SIGN:
        return TrustError(
            ErrorCode.TRUST_SIGNER,
            "the key in the KMS cannot sign: it is disabled, waits for its deletion, or is for another use",
            key=key,
            reason=refusal.code,
        )
    return UnavailableError(
        ErrorCode.SIGNER_UNAVAILABLE,
        "the KMS does not answer; nothing was signed, run the same command again",
        key=key,
        reason=refusal.code,
    )
