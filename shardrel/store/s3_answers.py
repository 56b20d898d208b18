"""What an S3 answer means for the request that it answers. Pure. Source: schemas/SPEC.md#store"""

from dataclasses import dataclass
from enum import Enum

from shardrel.errors import ErrorCode, RefusedError, UnavailableError


class Meaning(Enum):
    """What the caller may conclude."""

    REFUSED = "a condition does not hold (412): somebody's object is there"
    ABSENT = "the object, or the version, is not there"
    ASK_AGAIN = "nothing happened; ask again (409, 429, 503 SlowDown)"
    NOT_SENT = "no connection: nothing happened"
    SILENT = "no answer, or one that does not say what happened (other 5xx, time-out, reset)"
    FINAL = "asking again gives the same answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is not success.

    Attributes:
        meaning: What to conclude.
        status: HTTP status; 0 without one.
        code: The store's own name for it.
    """

    meaning: Meaning
    status: int
    code: str


_ASK_AGAIN = frozenset(
    {
        "ConditionalRequestConflict",
        "OperationAborted",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequests",
        "RequestTimeout",
    }
)
_FINAL_404 = frozenset({"NoSuchBucket"})
NO_CREDENTIALS = "NoCredentials"
_DENIED_SENTENCES = {
    NO_CREDENTIALS: "no usable credentials for the store were found",
    "RequestTimeTooSkewed": "the store refuses requests signed by this machine's clock: set the clock",
    "ExpiredToken": "the store's credentials have expired",
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the store refuses the signature: check the secret key",
}
_SENTENCES = {
    "NoSuchBucket": "the bucket does not exist: create it, or check the store's URL",
    "PermanentRedirect": "the bucket lies in another region: set AWS_REGION",
    "AuthorizationHeaderMalformed": "the bucket lies in another region: set AWS_REGION",
    "BadDigest": "the store received other bytes than were sent",
    "XAmzContentSHA256Mismatch": "the store received other bytes than were sent",
}


def interpret(status: int, code: str) -> Answer:
    """Give an HTTP status and an S3 error code their meaning."""
    return Answer(meaning=_meaning(status, code), status=status, code=code)


def _meaning(status: int, code: str) -> Meaning:
    if code in _ASK_AGAIN or status in (409, 429):
        return Meaning.ASK_AGAIN
    if status == 412:
        return Meaning.REFUSED
    if status == 404 and code not in _FINAL_404:
        return Meaning.ABSENT
    if status == 501:
        return Meaning.FINAL
    if status >= 500 or status == 0:
        return Meaning.SILENT
    return Meaning.FINAL


def failure(answer: Answer) -> UnavailableError | RefusedError:
    """The error for a caller who cannot go on.

    ``store.access-denied``, ``store.contention`` (the store kept asking to try again) or ``store.unavailable``;
    ``storage.not-conformant``, which no waiting heals.
    """
    if answer.status == 501:
        return not_conformant("the store does not implement conditional requests", answer)
    code, message = _error_of(answer)
    return UnavailableError(code, message, status=answer.status, answer=answer.code)


def not_conformant(message: str, answer: Answer) -> RefusedError:
    """The error of a store that cannot be used."""
    return RefusedError(ErrorCode.STORAGE_NOT_CONFORMANT, message, status=answer.status, answer=answer.code)


def _error_of(answer: Answer) -> tuple[ErrorCode, str]:
    if answer.status in (401, 403) or answer.code in _DENIED_SENTENCES:
        return ErrorCode.STORE_DENIED, _DENIED_SENTENCES.get(
            answer.code, "the store denies access (some stores also say so of an absent object that may not be listed)"
        )
    if answer.meaning is Meaning.ASK_AGAIN:
        return ErrorCode.STORE_CONTENTION, "the store is busy and keeps asking to try again"
    if answer.meaning is Meaning.NOT_SENT:
        return ErrorCode.STORE_UNAVAILABLE, "no connection to the store's endpoint"
    if answer.meaning is Meaning.FINAL and answer.status == 0:
        return ErrorCode.STORE_UNAVAILABLE, "the store's AWS configuration does not work"
    return ErrorCode.STORE_UNAVAILABLE, _SENTENCES.get(answer.code, "the store does not answer as it should")
