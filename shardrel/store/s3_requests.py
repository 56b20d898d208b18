"""Single requests to an S3 server, each sent once, with answers as values. Source: schemas/SPEC.md#store

The only module that knows boto3. The client never retries on its own: a hidden retry would turn a
write that landed into one that was refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import boto3
from botocore import exceptions as botocore
from botocore.config import Config
from botocore.parsers import ResponseParserError

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.store.s3_answers import NO_CREDENTIALS, Answer, Meaning, interpret
from shardrel.store.s3_bodies import BROKE_OFF, BodyError, Pace, read_body

_NOT_SENT = (botocore.EndpointConnectionError, botocore.ConnectTimeoutError, botocore.ProxyConnectionError)
_NO_ANSWER = (botocore.HTTPClientError, botocore.ConnectionError, botocore.IncompleteReadError, ResponseParserError)
_NO_CREDENTIALS = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.NoAuthTokenError,
    botocore.TokenRetrievalError,
    botocore.SSOError,
)
_ASK_AGAIN = frozenset({Meaning.ASK_AGAIN, Meaning.NOT_SENT, Meaning.SILENT})

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How to talk to a bucket's server.

    Attributes:
        attempts: How often one request is sent at most, within one call.
        first_pause: Seconds before the second attempt; doubled each time, up to ``longest_pause``.
        patience: Seconds after which one request is not sent again, however many attempts are left.
        read_timeout: Seconds that an answer, or the next bytes of a body, may take.
        least_rate: Bytes a second that a body has to come at on average, once it took longer than ``read_timeout``.
        quoted_tokens: Whether ETags are sent in quotes, as the standard says; some servers want them bare.
        multipart_from: Digest-addressed objects of so many bytes or more are sent in parts.
        part_bytes: Size of a part; S3 allows none below 5 MiB but the last.
    """

    attempts: int = 7
    first_pause: float = 0.1
    longest_pause: float = 5.0
    patience: float = 90.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    least_rate: int = 64 << 10
    connections: int = 64
    quoted_tokens: bool = True
    multipart_from: int = 64 << 20
    part_bytes: int = 32 << 20


class S3Requests:
    """Requests to one bucket. Threads may share it.

    Args:
        client: What ``connect`` gave for the same settings.
    """

    def __init__(self, bucket: str, client: Any, settings: S3Settings) -> None:
        self.bucket = bucket
        self.settings = settings
        self._client = client

    @property
    def endpoint_url(self) -> str:
        """Where the requests go."""
        return str(self._client.meta.endpoint_url)

    def speaking(self, *, quoted_tokens: bool) -> "S3Requests":
        """The same client with the other form of tokens."""
        return S3Requests(self.bucket, self._client, replace(self.settings, quoted_tokens=quoted_tokens))

    def ask(self, attempt: Callable[[], T | Answer]) -> T | Answer:
        """Send a request that may be sent again, until it is answered or the attempts are used up."""
        until = self.deadline()
        answer = attempt()
        for number in range(1, self.settings.attempts):
            if not isinstance(answer, Answer) or answer.meaning not in _ASK_AGAIN or not self.waited(number, until):
                break
            answer = attempt()
        return answer

    def deadline(self) -> float:
        """When patience with a request that begins now ends, on the monotonic clock."""
        return clock.monotonic() + self.settings.patience

    def waited(self, attempt: int, until: float) -> bool:
        """Wait before one more attempt; False when it is too late for one."""
        if clock.monotonic() > until:
            return False
        pause = min(self.settings.first_pause * 2 ** (attempt - 1), self.settings.longest_pause)
        clock.sleep(pause * (0.5 + clock.jitter() / 2))
        return True

    def call(self, operation: str, **params: Any) -> Any:
        """One request: the client's reply, or an Answer. Each is signed anew.

        Credentials that ran out are an answer too: only who knows what was sent before can say what it means.
        """
        try:
            return getattr(self._client, operation)(Bucket=self.bucket, **params)
        except botocore.ClientError as err:
            status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return interpret(status, err.response.get("Error", {}).get("Code", ""))
        except _NOT_SENT as err:
            return Answer(meaning=Meaning.NOT_SENT, status=0, code=type(err).__name__)
        except _NO_ANSWER as err:
            meaning = Meaning.NOT_SENT if "CERTIFICATE_VERIFY_FAILED" in str(err) else Meaning.SILENT
            return Answer(meaning=meaning, status=0, code=type(err).__name__)
        except _NO_CREDENTIALS:
            return Answer(meaning=Meaning.FINAL, status=0, code=NO_CREDENTIALS)
        except botocore.BotoCoreError as err:
            return Answer(meaning=Meaning.FINAL, status=0, code=type(err).__name__)

    def fetch(self, params: dict[str, str], max_bytes: int) -> tuple[Any, bytes] | Answer:
        """GET an object once: the client's reply and the whole body.

        Raises:
            IntegrityError: ``storage.too-large``; of a longer body at most one byte more is read.
        """
        reply = self.call("get_object", **params)
        if isinstance(reply, Answer):
            return reply
        length, body = reply.get("ContentLength"), reply["Body"]
        pace = Pace(grace=self.settings.read_timeout, least_rate=self.settings.least_rate)
        try:
            if length is not None and length > max_bytes:
                raise _too_large(length, max_bytes)
            data = read_body(body, max_bytes + 1, pace)
        except BodyError as err:
            return Answer(meaning=Meaning.SILENT, status=200, code=str(err))
        finally:
            body.close()
        if len(data) > max_bytes:
            raise _too_large(len(data), max_bytes)
        if length is not None and len(data) != length:
            return Answer(meaning=Meaning.SILENT, status=200, code=BROKE_OFF)
        return reply, data

    def fetch_start(self, params: dict[str, str], first: int) -> tuple[Any, int, bytes] | Answer:
        """GET the first bytes of an object: the client's reply, the size of the object, and the bytes.

        A server that knows no ranges sends all of it, of which no more is read.
        """
        reply = self.call("get_object", Range=f"bytes=0-{first - 1}", **params)
        if isinstance(reply, Answer):
            if reply.status != 416:
                return reply
            reply = self.call("get_object", **params)  # an object without bytes has no range
            if isinstance(reply, Answer):
                return reply
        size = _size_of(reply)
        pace = Pace(grace=self.settings.read_timeout, least_rate=self.settings.least_rate)
        try:
            start = read_body(reply["Body"], first, pace)
        except BodyError as err:
            return Answer(meaning=Meaning.SILENT, status=200, code=str(err))
        finally:
            reply["Body"].close()
        if size is None or len(start) != min(first, size):
            return Answer(meaning=Meaning.SILENT, status=200, code=BROKE_OFF)
        return reply, size, start


def connect(endpoint_url: str | None, settings: S3Settings) -> Any:
    """A client that sends each request once.

    Credentials, region and endpoint come from the usual AWS configuration; ``endpoint_url`` wins over it.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        max_pool_connections=settings.connections,
        # Newer defaults frame the body with checksum trailers, which some servers store as content.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"payload_signing_enabled": True},
        user_agent_extra="shardrel",
    )
    try:
        return boto3.session.Session().client("s3", endpoint_url=endpoint_url, config=config)
    except (botocore.BotoCoreError, ValueError) as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the AWS configuration or the endpoint URL of the store is not valid",
            kind=type(err).__name__,
        ) from err


def _size_of(reply: Any) -> int | None:
    """Size of the whole object that an answer holds a range, or all, of."""
    held = reply.get("ContentRange")
    if held is None:
        length = reply.get("ContentLength")
        return None if length is None else int(length)
    total = str(held).rpartition("/")[2]
    return int(total) if total.isascii() and total.isdigit() else None


def _too_large(size: int, limit: int) -> IntegrityError:
    return IntegrityError(ErrorCode.STORAGE_TOO_LARGE, "an object has more bytes than expected", size=size, limit=limit)
