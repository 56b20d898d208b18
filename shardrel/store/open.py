"""From a store's URL to a store."""

import re
from urllib.parse import unquote, urlsplit

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.store.local import LocalStore
from shardrel.store.port import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_BUCKET = re.compile(r"[a-z0-9A-Z][a-zA-Z0-9._-]{1,254}")
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@-]+")


def open_store(url: str, *, endpoint_url: str | None = None, quoted_tokens: bool = True) -> Store:
    """Open a store; nothing is asked of it yet.

    Args:
        url: A plain path, ``file:///absolute/folder`` or ``s3://bucket/prefix``.
        endpoint_url: Where an S3 server is, if the usual AWS configuration does not say. A folder has no use for it,
            and is opened all the same: the environment may name a server that other commands need.
        quoted_tokens: What a probe found out about an S3 server; ``verdicts.conforming`` looks it up.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    scheme = _SCHEME.match(url)
    if url.startswith("s3://"):
        return _open_s3(url, endpoint_url, quoted_tokens=quoted_tokens)
    if url.startswith("file://"):
        return LocalStore(_file_path(url))
    if scheme is not None or not url or "\0" in url:
        raise _invalid("a store is a path, file:///absolute/folder or s3://bucket/prefix")
    return LocalStore(url)


def _file_path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or parts.query or parts.fragment:
        raise _invalid("a file URL is file:/// and an absolute path; write ?, # and % in it as %3F, %23 and %25")
    if "\0" in path:
        raise _invalid("a path has no NUL")
    return path


def _open_s3(url: str, endpoint_url: str | None, *, quoted_tokens: bool) -> Store:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise _invalid(
            "an S3 store is s3://bucket/prefix; a bucket's name has 2 or more letters, digits, dots and dashes"
        )
    segments = prefix.split("/") if prefix else []
    if any(not _SEGMENT.fullmatch(segment) or segment in (".", "..") for segment in segments):
        raise _invalid("the prefix of an S3 store has plain names between single slashes")
    if endpoint_url is not None and urlsplit(endpoint_url).scheme not in ("http", "https"):
        raise _invalid("an endpoint URL begins with http:// or https://")
    # Here, so that nobody loads boto3 who doesn't use it.
    from shardrel.store.s3 import S3Store
    from shardrel.store.s3_requests import S3Settings, connect

    settings = S3Settings(quoted_tokens=quoted_tokens)
    return S3Store(bucket, prefix, client=connect(endpoint_url, settings), settings=settings)


def _invalid(message: str) -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_INVALID, message)
