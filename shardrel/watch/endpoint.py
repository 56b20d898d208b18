"""An HTTP endpoint that answers GET alone and writes nothing down. Source: schemas/SPEC.md#watching."""

import errno
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.watch.exposition import CONTENT_TYPE


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    status: int
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


Pages = Mapping[str, Callable[[], Page]]


def readiness(ready: Callable[[], tuple[bool, Mapping[str, object]]]) -> Callable[[], Page]:
    """A page for a probe: 200 when ready, else 503, with facts as JSON."""

    def answer() -> Page:
        yes, facts = ready()
        return Page(200 if yes else 503, "application/json", json.dumps({"ready": yes, **facts}).encode() + b"\n")

    return answer


def metrics(write: Callable[[], bytes]) -> Callable[[], Page]:
    """A page for Prometheus."""
    return lambda: Page(200, CONTENT_TYPE, write())


@contextmanager
def endpoint(host: str, port: int, pages: Pages) -> Iterator[int]:
    """Answer requests in threads of this process; gives the port, which is a free one for 0.

    Raises:
        InvalidInputError: ``input.invalid`` when the address can't be had.
    """
    handler = type("Handler", (_Handler,), {"pages": pages})
    try:
        server = ThreadingHTTPServer((host, port), handler)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, _why_not(host, port, err), host=host, port=port) from err
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="shardrel-watch", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def address(host: str, port: int) -> str:
    """What a browser is given."""
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _why_not(host: str, port: int, err: OSError) -> str:
    if err.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; choose another one, or end what listens there"
    return f"can't listen at port {port} of {host}: {err.strerror or type(err).__name__}"


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[Pages]
    server_version = "shardrel"
    sys_version = ""
    timeout = 10  # a client that sends nothing holds a thread no longer

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Nothing: requests are no events."""

    def _answer(self, *, with_body: bool) -> None:
        make = self.pages.get(self.path.partition("?")[0])
        page = Page(404, "text/plain", b"not found\n") if make is None else make()
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in page.headers:
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)
