"""The S3 store: conditional single PUTs and exact versions. Source: schemas/SPEC.md#store

The client never retries on its own: a hidden retry would turn a write that landed into one that
was refused. Reads are asked again here, writes only under the rules of ``readback``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
from botocore import exceptions as botocore
from botocore.config import Config
from botocore.parsers import ResponseParserError

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, UnavailableError
from shardrel.store.layout import check_key, check_prefix, is_key
from shardrel.store.port import CreateOutcome, ObjectKey, Stored, SwapOutcome, Token, Unknown, Written
from shardrel.store.readback import ABSENT, AskAgain, Seen, Unreadable, after_create, after_swap
from shardrel.store.s3_answers import Answer, Meaning, failure, interpret

_WRITE_ID = "shardrel-write-id"
_REPLACED = "shardrel-replaced"
_LARGEST_PUT = 5 << 30
_WORTH_ASKING_FIRST = 1 << 20
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
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How to talk to a bucket's server.

    Attributes:
        attempts: How often one request is sent at most, within one call.
        first_pause: Seconds before the second attempt; doubled each time, up to ``longest_pause``.
        patience: Seconds after which one request is not sent again, however many attempts are left.
        quoted_tokens: Whether ETags are sent in quotes, as the standard says; some servers want them bare.
    """

    attempts: int = 7
    first_pause: float = 0.1
    longest_pause: float = 5.0
    patience: float = 90.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    connections: int = 64
    quoted_tokens: bool = True


class S3Store:
    """A bucket, or a prefix in one, versioned or not. Threads may share it, forked processes may not.

    Args:
        client: What ``connect`` gave for the same settings.
    """

    def __init__(self, bucket: str, prefix: str, *, client: Any, settings: S3Settings) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._client = client

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``, without endpoint or credentials."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """PUT with ``If-None-Match: *``.

        Effects: one object; a crash leaves it whole, absent, or still on its way.
        """
        check_key(key)
        own = clock.fresh_id()
        if len(data) >= _WORTH_ASKING_FIRST:
            found = after_create(self._look(key, own, data), own)
            if not isinstance(found, AskAgain | Unknown):
                return found
        return self._write(
            key, data, {"IfNoneMatch": "*"}, {_WRITE_ID: own}, lambda _: after_create(self._look(key, own, data), own)
        )

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """GET the current bytes, or exactly a version; a body that ends early is read again."""
        params = self._at(check_key(key), version)
        if params is None:
            return None
        found = self._ask(lambda: self._fetch(params, max_bytes))
        if isinstance(found, Answer):
            if _is_absent(found, version):
                return None
            raise failure(found)
        # A server that ignores what version it was asked for doesn't have that version.
        return found if version in (None, found.version) else None

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """PUT with ``If-Match``, or with ``If-None-Match: *`` where the key must be absent.

        Effects: one object replaced; a crash leaves the old bytes, the new ones, or the request on its way.
        """
        check_key(key)
        own = clock.fresh_id()
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": self._as_condition(expected)}
        return self._write(
            key,
            data,
            condition,
            {_WRITE_ID: own, _REPLACED: expected or ABSENT},
            lambda doubt: after_swap(self._look(key, own, None), own, expected, doubt=doubt),
        )

    def list(self, prefix: str) -> Iterator[ObjectKey]:
        """Keys below a prefix, page by page.

        Raises:
            UnavailableError: ``store.unavailable`` also for a page that says it goes on but not where.
        """
        params: dict[str, str] = {"Prefix": self._prefix + check_prefix(prefix)}
        seen: set[str] = set()
        while True:
            page = self._ask(lambda: self._call("list_objects_v2", **params))
            if isinstance(page, Answer):
                raise failure(page)
            for entry in page.get("Contents", ()):
                name = entry["Key"].removeprefix(self._prefix)
                if is_key(name):
                    yield ObjectKey(name)
            if not page.get("IsTruncated"):
                return
            token = page.get("NextContinuationToken")
            if not token or token in seen:
                raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "the store's listing breaks off in the middle")
            seen.add(token)
            params["ContinuationToken"] = token

    def delete(self, key: ObjectKey, version: str) -> bool:
        """DELETE exactly this version and read back. False when a lock or a hold keeps it."""
        params = self._at(check_key(key), version)
        if params is None:
            return True
        answer = self._ask(lambda: self._call("delete_object", **params))
        if isinstance(answer, Answer) and not _is_absent(answer, version):
            if answer.status == 403 and self._is_held(params):
                return False
            raise failure(answer)
        left = self._ask(lambda: self._call("head_object", **params))
        if isinstance(left, Answer) and not _is_absent(left, version):
            raise failure(left)
        return isinstance(left, Answer)

    def _write(
        self,
        key: ObjectKey,
        data: bytes | memoryview,
        condition: dict[str, str],
        stamps: dict[str, str],
        judge: Callable[[bool], Outcome | AskAgain],
    ) -> Outcome | Written | Unknown:
        """Send one conditional write until its outcome is settled or the attempts are used up."""
        if len(data) > _LARGEST_PUT:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "an object has at most 5 GiB: use more shards")
        doubt, until = False, self._deadline()
        last = Answer(meaning=Meaning.NOT_SENT, status=0, code="")
        for attempt in range(self._settings.attempts):
            if attempt and not self._waited(attempt, until):
                break
            answer = self._put(key, data, condition, stamps)
            if isinstance(answer, Written):
                return answer
            last = answer
            if answer.meaning is Meaning.FINAL:
                break
            if answer.meaning in (Meaning.ASK_AGAIN, Meaning.NOT_SENT):
                continue
            doubt = doubt or answer.meaning is Meaning.SILENT
            verdict = judge(doubt)
            if not isinstance(verdict, AskAgain):
                return verdict
        if doubt:
            return Unknown(f"the store did not say what became of the write ({last.status} {last.code})")
        if last.meaning in (Meaning.REFUSED, Meaning.ABSENT):
            raise UnavailableError(
                ErrorCode.STORAGE_NOT_CONFORMANT, "the store refuses a write whose condition holds", status=last.status
            )
        raise failure(last)

    def _put(
        self, key: ObjectKey, data: bytes | memoryview, condition: dict[str, str], stamps: dict[str, str]
    ) -> Written | Answer:
        body = data if isinstance(data, bytes) else bytes(data)
        reply = self._call("put_object", Key=self._prefix + key, Body=body, Metadata=stamps, **condition)
        if isinstance(reply, Answer):
            return reply
        if not reply.get("ETag"):
            return Answer(meaning=Meaning.SILENT, status=200, code="NoETag")
        return Written(_version(reply), _token(reply))

    def _look(self, key: ObjectKey, own: str, data: bytes | memoryview | None) -> Seen | Unreadable | None:
        """What the key holds now; ``data`` are the bytes to compare with where the write id is not ours."""
        reply = self._ask(lambda: self._call("head_object", Key=self._prefix + key))
        if isinstance(reply, Answer):
            return None if reply.meaning is Meaning.ABSENT else Unreadable()
        stamps = reply.get("Metadata", {})
        try:
            same = data is not None and stamps.get(_WRITE_ID) != own and self._holds(key, reply, data)
        except (UnavailableError, IntegrityError):
            return Unreadable()
        return Seen(
            version=_version(reply),
            token=_token(reply),
            write_id=stamps.get(_WRITE_ID),
            replaced=stamps.get(_REPLACED),
            same_bytes=same,
        )

    def _holds(self, key: ObjectKey, reply: Any, data: bytes | memoryview) -> bool:
        if reply.get("ContentLength") != len(data):
            return False
        stored = self.read(key, max_bytes=len(data), version=_version(reply))
        if stored is None:
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "an object changed while it was compared")
        return stored.data == bytes(data)

    def _fetch(self, params: dict[str, str], max_bytes: int) -> Stored | Answer:
        reply = self._call("get_object", **params)
        if isinstance(reply, Answer):
            return reply
        length, body = reply.get("ContentLength"), reply["Body"]
        try:
            if length is not None and length > max_bytes:
                raise _too_large(length, max_bytes)
            data = body.read() if length is not None else b"".join(_bounded(body, max_bytes + 1))
        except _NO_ANSWER:
            return Answer(meaning=Meaning.SILENT, status=200, code="BodyBrokeOff")
        finally:
            body.close()
        if len(data) > max_bytes:
            raise _too_large(len(data), max_bytes)
        return Stored(data, _version(reply), _token(reply))

    def _is_held(self, params: dict[str, str]) -> bool:
        reply = self._ask(lambda: self._call("head_object", **params))
        if isinstance(reply, Answer):
            return False
        return bool(reply.get("ObjectLockMode")) or reply.get("ObjectLockLegalHoldStatus") == "ON"

    def _at(self, key: ObjectKey, version: str | None) -> dict[str, str] | None:
        """The request for a key at a version; None where no bucket has such a version."""
        params = {"Key": self._prefix + key}
        if version is None:
            return params
        kind, _, rest = version.partition(":")
        if kind == "etag":
            return {**params, "IfMatch": self._as_condition(rest)}
        return None if rest or not version else {**params, "VersionId": version}

    def _as_condition(self, token: str) -> str:
        return f'"{token}"' if self._settings.quoted_tokens else token

    def _ask(self, attempt: Callable[[], T | Answer]) -> T | Answer:
        """Send a request that may be sent again, until it is answered or the attempts are used up."""
        until = self._deadline()
        answer = attempt()
        for number in range(1, self._settings.attempts):
            if not isinstance(answer, Answer) or answer.meaning not in _ASK_AGAIN or not self._waited(number, until):
                break
            answer = attempt()
        return answer

    def _deadline(self) -> float:
        return clock.monotonic() + self._settings.patience

    def _waited(self, attempt: int, until: float) -> bool:
        """Wait before one more attempt; False when it is too late for one."""
        if clock.monotonic() > until:
            return False
        pause = min(self._settings.first_pause * 2 ** (attempt - 1), self._settings.longest_pause)
        clock.sleep(pause * (0.5 + clock.jitter() / 2))
        return True

    def _call(self, operation: str, **params: Any) -> Any:
        """One request: the client's reply, or an Answer. Each is signed anew."""
        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **params)
        except botocore.ClientError as err:
            status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return interpret(status, err.response.get("Error", {}).get("Code", ""))
        except _NOT_SENT as err:
            return Answer(meaning=Meaning.NOT_SENT, status=0, code=type(err).__name__)
        except _NO_ANSWER as err:
            meaning = Meaning.NOT_SENT if "CERTIFICATE_VERIFY_FAILED" in str(err) else Meaning.SILENT
            return Answer(meaning=meaning, status=0, code=type(err).__name__)
        except _NO_CREDENTIALS as err:
            raise UnavailableError(ErrorCode.STORE_DENIED, "no usable credentials for the store were found") from err
        except botocore.BotoCoreError as err:
            raise UnavailableError(
                ErrorCode.STORE_UNAVAILABLE, "the store's AWS configuration does not work", kind=type(err).__name__
            ) from err


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


def _token(reply: Any) -> Token:
    """An ETag, without quotes: opaque, never a digest."""
    return Token(reply.get("ETag", "").strip('"'))


def _version(reply: Any) -> str:
    """The VersionId; on an unversioned bucket ``etag:`` and the ETag."""
    version = reply.get("VersionId")
    return version if version and version != "null" else "etag:" + _token(reply)


def _is_absent(answer: Answer, version: str | None) -> bool:
    """Whether an answer to a read or delete says that the object, or this version, is not there.

    Beside 404, an exact version is absent when its ETag no longer holds (412), when the store does not
    know such an id (400) and when it is a delete marker (405).
    """
    if answer.meaning is Meaning.ABSENT:
        return True
    return version is not None and (answer.status in (405, 412) or (answer.status == 400 and "Argument" in answer.code))


def _bounded(body: Any, limit: int) -> Iterator[bytes]:
    while limit > 0 and (piece := body.read(min(limit, 1 << 20))):
        limit -= len(piece)
        yield piece


def _too_large(size: int, limit: int) -> IntegrityError:
    return IntegrityError(ErrorCode.STORAGE_TOO_LARGE, "an object has more bytes than expected", size=size, limit=limit)
