import pytest

from shardrel.errors import ErrorCode
from shardrel.store.s3_answers import Meaning, failure, interpret


@pytest.mark.parametrize(
    ("status", "code", "meaning"),
    [
        (412, "PreconditionFailed", Meaning.REFUSED),
        (404, "NoSuchKey", Meaning.ABSENT),
        (404, "NoSuchVersion", Meaning.ABSENT),
        (404, "NoSuchBucket", Meaning.FINAL),
        (409, "ConditionalRequestConflict", Meaning.ASK_AGAIN),
        (503, "SlowDown", Meaning.ASK_AGAIN),
        (429, "TooManyRequests", Meaning.ASK_AGAIN),
        (400, "RequestTimeout", Meaning.ASK_AGAIN),
        (503, "ServiceUnavailable", Meaning.SILENT),
        (500, "InternalError", Meaning.SILENT),
        (0, "", Meaning.SILENT),
        (501, "NotImplemented", Meaning.FINAL),
        (403, "AccessDenied", Meaning.FINAL),
        (400, "BadDigest", Meaning.FINAL),
    ],
)
def test_each_answer_has_one_meaning(status: int, code: str, meaning: Meaning) -> None:
    assert interpret(status, code).meaning is meaning


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", ErrorCode.STORE_DENIED),
        (403, "RequestTimeTooSkewed", ErrorCode.STORE_DENIED),
        (400, "ExpiredToken", ErrorCode.STORE_DENIED),
        (409, "ConditionalRequestConflict", ErrorCode.STORE_CONTENTION),
        (503, "SlowDown", ErrorCode.STORE_CONTENTION),
        (500, "InternalError", ErrorCode.STORE_UNAVAILABLE),
        (404, "NoSuchBucket", ErrorCode.STORE_UNAVAILABLE),
    ],
)
def test_an_answer_that_ends_the_work_has_a_code(status: int, code: str, error: ErrorCode) -> None:
    assert failure(interpret(status, code)).code is error
