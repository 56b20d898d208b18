"""What an answer of AWS KMS means, for signatures and for data keys alike. Pure. Source: schemas/SPEC.md#signers

No request has an effect that anybody could see twice, so whatever was not answered is asked again: an unknown
outcome is none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, TrustError, UnavailableError

NO_ANSWER = "NoAnswer"
NO_CREDENTIALS = "NoCredentials"
UNREADABLE = "UnreadableAnswer"

_THROTTLED = frozenset({"ThrottlingException", "Throttling", "LimitExceededException", "TooManyRequestsException"})
_SILENT = frozenset(
    {
        NO_ANSWER,
        UNREADABLE,
        "KeyUnavailableException",
        "DependencyTimeoutException",
        "KMSInternalException",
        "InternalFailure",
    }
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
_UNUSABLE = frozenset(
    {
        "DisabledException",
        "KMSInvalidStateException",
        "InvalidKeyUsageException",
        "UnsupportedOperationException",
        "InvalidGrantTokenException",
    }
)
_OTHER_CIPHERTEXT = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})


Made = Callable[..., ShardrelError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What a key is asked for, and the errors of what goes wrong then."""

    verb: str
    unavailable: Made
    throttled: Made
    denied: Made
    unusable: Made


SIGNING = Purpose(
    verb="sign",
    unavailable=partial(UnavailableError, ErrorCode.SIGNER_UNAVAILABLE),
    throttled=partial(UnavailableError, ErrorCode.SIGNER_THROTTLED),
    denied=partial(UnavailableError, ErrorCode.SIGNER_DENIED),
    unusable=partial(TrustError, ErrorCode.TRUST_SIGNER),
)
WRAPPING = Purpose(
    verb="encrypt data keys",
    unavailable=partial(UnavailableError, ErrorCode.KMS_UNAVAILABLE),
    throttled=partial(UnavailableError, ErrorCode.KMS_THROTTLED),
    denied=partial(UnavailableError, ErrorCode.KMS_DENIED),
    unusable=partial(TrustError, ErrorCode.KMS_KEY),
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
        """Whether the service did not come to an answer that can be read."""
        return self.code in _SILENT or self.status >= 500

    @property
    def other_ciphertext(self) -> bool:
        """Whether a ciphertext was made by another key, for another context, or was changed."""
        return self.code in _OTHER_CIPHERTEXT


def as_error(refusal: Refusal, key: str, purpose: Purpose) -> ShardrelError:
    """The error for a caller who cannot go on: of the category that says what to do."""
    if refusal.throttled:
        return purpose.throttled("the KMS has too many requests; run the same command again", key=key)
    if refusal.code in _DENIED:
        return purpose.denied("the KMS does not let these credentials use the key", key=key, reason=refusal.code)
    if refusal.code in _NO_SUCH_KEY:
        return InvalidInputError(ErrorCode.INPUT_KEY, "the KMS has no such key", key=key, reason=refusal.code)
    if refusal.code in _UNUSABLE:
        return purpose.unusable(
            f"the key in the KMS cannot {purpose.verb}: it is disabled, waits for its deletion, or is for another use",
            key=key,
            reason=refusal.code,
        )
    return purpose.unavailable("the KMS does not answer; run the same command again", key=key, reason=refusal.code)
