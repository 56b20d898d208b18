"""The S3 store: conditional single PUTs and exact versions. Source: schemas/SPEC.md#store

What must be exclusive is one PUT; only a big digest-addressed object is a multipart upload. Reads are sent again until they are answered, writes only as the rules of ``readback`` allow.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, TypeVar

from shardrel import clock
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, UnavailableError
from shardrel.store.layout import check_key, check_prefix, is_key
from shardrel.store.port import Address, CreateOutcome, Looked, ObjectKey, Stored, SwapOutcome, Token, Unknown, Written
from shardrel.store.readback import ABSENT, AskAgain, Seen, Unreadable, after_create, after_swap
from shardrel.store.s3_answers import Answer, Meaning, failure, not_conformant
from shardrel.store.s3_multipart import open_uploads, upload
from shardrel.store.s3_requests import S3Requests, S3Settings

_WRITE_ID = "shardrel-write-id"
_REPLACED = "shardrel-replaced"
_LARGEST_PUT = 5 << 30
_WORTH_ASKING_FIRST = 1 << 20
_BY_DIGEST = "objects/"

Outcome = TypeVar("Outcome")


class S3Store:
    """A bucket, or a prefix in one, versioned or not. Threads may share it, forked processes may not.

    Args:
        client: What ``connect`` gave for the same settings.
    """

    def __init__(self, bucket: str, prefix: str, *, client: Any, settings: S3Settings) -> None:
        self._requests = S3Requests(bucket, client, settings)
        self._prefix = f"{prefix}/" if prefix else ""

    @property
    def address(self) -> Address:
        """For another process, which looks for credentials as this one did."""
        requests = self._requests
        quoted = requests.settings.quoted_tokens
        return Address(url=self.url, endpoint_url=requests.endpoint_url, quoted_tokens=quoted)

    def speaking(self, *, quoted_tokens: bool) -> "S3Store":
        """The same bucket and client with the other form of ETags in conditions."""
        other = copy(self)
        other._requests = self._requests.speaking(quoted_tokens=quoted_tokens)
        return other

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``, without endpoint or credentials."""
        return f"s3://{self._requests.bucket}/{self._prefix}".rstrip("/")

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
        if len(data) >= self._requests.settings.multipart_from and key.startswith(_BY_DIGEST):
            return self._create_in_parts(key, data, own)
        return self._write(
            len(data),
            lambda: self._put(key, data, {"IfNoneMatch": "*"}, {_WRITE_ID: own}),
            lambda _: after_create(self._look(key, own, data), own),
        )

    def create_in_parts(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        """Create as a multipart upload. Nothing that must be exclusive may go this way: see ``probe``."""
        return self._create_in_parts(check_key(key), data, clock.fresh_id())

    def _create_in_parts(self, key: ObjectKey, data: bytes | memoryview, own: str) -> CreateOutcome:
        return self._write(
            0,  # its parts are as many as it takes
            lambda: upload(self._requests, self._prefix + key, data, {_WRITE_ID: own}),
            lambda _: after_create(self._look(key, own, data), own),
        )

    def read(self, key: ObjectKey, *, max_bytes: int, version: str | None = None) -> Stored | None:
        """GET the current bytes, or exactly a version; a body that ends early is read again."""
        params = self._at(check_key(key), version)
        if params is None:
            return None
        found = self._requests.ask(lambda: self._fetch(params, max_bytes))
        if isinstance(found, Answer):
            if _is_absent(found, version):
                return None
            raise failure(found)
        # A server that ignores what version it was asked for doesn't have that version.
        return found if version in (None, found.version) else None

    def look(self, key: ObjectKey, *, first: int = 0, version: str | None = None) -> Looked | None:
        """GET of a range at the beginning; of no HEAD, whose refusals have no names."""
        params = self._at(check_key(key), version)
        if params is None:
            return None
        found = self._requests.ask(lambda: self._requests.fetch_start(params, max(first, 1)))
        if isinstance(found, Answer):
            if _is_absent(found, version):
                return None
            raise failure(found)
        reply, size, start = found
        looked = Looked(size, _version(reply), start[:first])
        return looked if version in (None, looked.version) else None

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        """PUT with ``If-Match``, or with ``If-None-Match: *`` where the key must be absent.

        Effects: one object replaced; a crash leaves the old bytes, the new ones, or the request on its way.
        """
        check_key(key)
        own = clock.fresh_id()
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": self._as_condition(expected)}
        stamps = {_WRITE_ID: own, _REPLACED: expected or ABSENT}
        return self._write(
            len(data),
            lambda: self._put(key, data, condition, stamps),
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
            page = self._requests.ask(lambda: self._requests.call("list_objects_v2", **params))
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
        """DELETE exactly this version and read back. False when a lock or a hold keeps it.

        Some servers ignore the condition of a DELETE, so where an ETag is the version it is looked at first.
        """
        params = self._at(check_key(key), version)
        if params is None or ("IfMatch" in params and self._is_gone(params, version)):
            return True
        answer = self._requests.ask(lambda: self._requests.call("delete_object", **params))
        if isinstance(answer, Answer) and not _is_absent(answer, version):
            if answer.status == 403 and self._is_held(params):
                return False
            raise failure(answer)
        return self._is_gone(params, version)

    def hide(self, key: ObjectKey) -> str | None:
        """DELETE without a version; for a probe."""
        answer = self._requests.ask(lambda: self._requests.call("delete_object", Key=self._prefix + check_key(key)))
        if isinstance(answer, Answer):
            raise failure(answer)
        version = answer.get("VersionId")
        return str(version) if answer.get("DeleteMarker") and version else None

    def open_uploads(self) -> int:
        """Multipart uploads that are under way or were left behind; for a probe."""
        found = open_uploads(self._requests, self._prefix)
        if isinstance(found, Answer):
            raise failure(found)
        return found

    def _write(
        self,
        size: int,
        send: Callable[[], Written | Answer],
        judge: Callable[[bool], Outcome | AskAgain],
    ) -> Outcome | Written | Unknown:
        """Send one conditional write until its outcome is settled or the attempts are used up."""
        if size > _LARGEST_PUT:
            raise InvalidInputError(ErrorCode.INPUT_INVALID, "such an object has at most 5 GiB")
        doubt, until = False, self._requests.deadline()
        last = Answer(meaning=Meaning.NOT_SENT, status=0, code="")
        for attempt in range(self._requests.settings.attempts):
            if attempt and not self._requests.waited(attempt, until):
                break
            answer = send()
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
            raise not_conformant("the store refuses a write whose condition holds", last)
        raise failure(last)

    def _put(
        self, key: ObjectKey, data: bytes | memoryview, condition: dict[str, str], stamps: dict[str, str]
    ) -> Written | Answer:
        body = data if isinstance(data, bytes) else bytes(data)
        reply = self._requests.call("put_object", Key=self._prefix + key, Body=body, Metadata=stamps, **condition)
        if isinstance(reply, Answer):
            return reply
        if not reply.get("ETag"):
            return Answer(meaning=Meaning.SILENT, status=200, code="NoETag")
        return Written(_version(reply), _token(reply))

    def _look(self, key: ObjectKey, own: str, data: bytes | memoryview | None) -> Seen | Unreadable | None:
        """What the key holds now; ``data`` are the bytes to compare with where the write id is not ours."""
        reply = self._requests.ask(lambda: self._requests.call("head_object", Key=self._prefix + key))
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
        found = self._requests.fetch(params, max_bytes)
        if isinstance(found, Answer):
            return found
        reply, data = found
        return Stored(data, _version(reply), _token(reply))

    def _is_gone(self, params: dict[str, str], version: str) -> bool:
        left = self._requests.ask(lambda: self._requests.call("head_object", **params))
        if isinstance(left, Answer) and not _is_absent(left, version):
            raise failure(left)
        return isinstance(left, Answer)

    def _is_held(self, params: dict[str, str]) -> bool:
        reply = self._requests.ask(lambda: self._requests.call("head_object", **params))
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
        return f'"{token}"' if self._requests.settings.quoted_tokens else token


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
