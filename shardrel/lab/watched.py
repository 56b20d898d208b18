"""Stores that tell every operation, and what is durable inside of one. Source: schemas/SPEC.md#crash-lab."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from shardrel.lab.barrier import ANSWER, BEGIN, END, REFUSAL, REQUEST, Event, place_of
from shardrel.lab.plain_versions import PlainVersions
from shardrel.lab.tasks import Server
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.store.port import ObjectKey, Store

T = TypeVar("T")

Tell = Callable[[Event], None]
"""Returns once the event is acknowledged, or never."""


def watch(url: str, server: Server | None, tell: Tell) -> Store:
    """The store at a URL, or in a folder where there is no server."""
    return WatchedStore(url, tell) if server is None else WatchedServer(url, server, tell)


class _Watched(ForwardingStore):
    def __init__(self, inner: Store, tell: Tell) -> None:
        super().__init__(inner)
        self._tell = tell
        self._number = 0
        self._operation = ""

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        """Tell when it begins and when it has ended."""
        self._operation = operation
        self._say(BEGIN, key)
        outcome = request()
        self._say(END, key)
        return outcome

    def _say(self, step: str, key: str, operation: str | None = None) -> None:
        event = Event(number=self._number, step=step, operation=operation or self._operation, place=place_of(key))
        self._number += 1
        self._tell(event)


class WatchedStore(_Watched):
    """A local store that tells each durable step."""

    def __init__(self, path: str | os.PathLike[str], tell: Tell) -> None:
        super().__init__(_Stepping(path, self._say), tell)


class WatchedServer(_Watched):
    """A bucket that tells each request, and its answer."""

    def __init__(self, url: str, server: Server, tell: Tell) -> None:
        from shardrel.store.s3 import S3Store
        from shardrel.store.s3_requests import S3Settings, connect

        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        settings = S3Settings(quoted_tokens=server.quoted_tokens)

        def said(step: str, name: str, operation: str) -> None:
            self._say(step, name.removeprefix(f"{prefix}/"), operation)

        client = _TellingClient(connect(server.endpoint_url, settings), said)
        super().__init__(PlainVersions(S3Store(bucket, prefix, client=client, settings=settings)), tell)


class _Stepping(LocalStore):
    def __init__(self, path: str | os.PathLike[str], say: Callable[[str, str], None]) -> None:
        super().__init__(path)
        self._say = say

    def passed(self, step: str, key: ObjectKey) -> None:
        self._say(step, key)


class _TellingClient:
    """A client of S3: each of its methods sends one request."""

    def __init__(self, client: Any, say: Callable[[str, str, str], None]) -> None:
        self._client = client
        self._say = say

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return self._told(name, found) if callable(found) else found

    def _told(self, operation: str, send: Callable[..., Any]) -> Callable[..., Any]:
        def told(**params: Any) -> Any:
            key = params.get("Key", "")
            self._say(REQUEST, key, operation)
            end = REFUSAL
            try:
                reply = send(**params)
                end = ANSWER
            finally:
                self._say(end, key, operation)
            return reply

        return told
