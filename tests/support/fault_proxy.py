"""An HTTP proxy between an S3 client and its server that does what networks and servers do wrong.

It goes on a script of steps, each for some requests of one method; what no step wants passes unchanged.
The server behind it must not check signatures (moto does not), because steps may change requests.
"""

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Response:
    """What the server answered, or what the proxy makes of it.

    Attributes:
        cut: Send only so many bytes of the body, then hang up; None sends all.
        claimed: A length to declare instead of the body's.
        declared: Whether the length is sent; without it the body ends where the connection does.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    cut: int | None = None
    declared: bool = True
    claimed: int | None = None


Forward = Callable[[Request], Response]
Action = Callable[[Request, Forward], Response | None]
"""Gets the request and the way on; None hangs up without an answer."""


@dataclass
class FaultProxy:
    """A running proxy.

    Attributes:
        script: (method, action, how many requests of the method it takes), first match first.
        requests: Everything that clients sent, in order.
    """

    url: str
    script: list[tuple[str, Action, int]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def on(self, method: str, action: Action, times: int = 1) -> None:
        """Add a step."""
        self.script.append((method, action, times))

    def reset(self) -> None:
        """Forget the script and what was sent."""
        self.script.clear()
        self.requests.clear()

    def sent(self, method: str) -> list[Request]:
        """What clients sent with one method."""
        return [request for request in self.requests if request.method == method]

    def take(self, request: Request) -> Action | None:
        """The step for a request; spends it."""
        self.requests.append(request)
        for at, (method, action, times) in enumerate(self.script):
            if method == request.method and times > 0:
                self.script[at] = (method, action, times - 1)
                return action
        return None


def lose_request(request: Request, forward: Forward) -> None:
    """Nothing reaches the server, and the client hears nothing."""


def lose_answer(request: Request, forward: Forward) -> None:
    """The server does it, and the client hears nothing."""
    forward(request)


def answer(status: int, code: str) -> Action:
    """The server answers with an error and does nothing."""
    return lambda request, forward: _error(status, code)


def answer_after(status: int, code: str) -> Action:
    """The server does it and answers with an error."""

    def act(request: Request, forward: Forward) -> Response:
        forward(request)
        return _error(status, code)

    return act


def truncate(keep: Callable[[int], int]) -> Action:
    """The body ends early: ``keep`` says how many of its bytes come."""

    def act(request: Request, forward: Forward) -> Response:
        response = forward(request)
        return replace(response, cut=keep(len(response.body)))

    return act


def without_length(request: Request, forward: Forward) -> Response:
    """The answer does not say how long its body is."""
    return replace(forward(request), declared=False)


def before(hook: Callable[[], object], action: Action) -> Action:
    """Something else happens first."""

    def act(request: Request, forward: Forward) -> Response | None:
        hook()
        return action(request, forward)

    return act


def pass_on(request: Request, forward: Forward) -> Response:
    """No fault."""
    return forward(request)


def ignore_conditions(request: Request, forward: Forward) -> Response:
    """A server that knows nothing of conditional requests."""
    kept = {name: value for name, value in request.headers.items() if name.lower() not in ("if-match", "if-none-match")}
    return forward(replace(request, headers=kept))


def _error(status: int, code: str) -> Response:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>planned</Message></Error>".encode()
    return Response(status=status, headers={"Content-Type": "application/xml"}, body=body)


@contextmanager
def fault_proxy(target: str, *, one_at_a_time: bool = False) -> Iterator[FaultProxy]:
    """A proxy on a free loopback port in front of ``target``, which gets one request at a time if it bears no more.

    moto does not: it looks whether a condition holds and writes afterwards, and fails where two write one key at once.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.proxy = FaultProxy(url=f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    server.target = urlsplit(target).netloc  # type: ignore[attr-defined]
    server.turn = threading.Lock() if one_at_a_time else nullcontext()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.proxy  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(method=self.command, path=self.path, headers=dict(self.headers.items()), body=body)
        action = self.server.proxy.take(request) or pass_on
        response = action(request, self._forward)
        if response is None:
            self._hang_up()
        else:
            self._send(response)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _handle  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Tests look at ``requests`` instead."""

    def _forward(self, request: Request) -> Response:
        with self.server.turn:
            return self._answered(request)

    def _answered(self, request: Request) -> Response:
        connection = http.client.HTTPConnection(self.server.target, timeout=30)
        try:
            headers = {
                name: value
                for name, value in request.headers.items()
                if name.lower() not in ("expect", "content-length", "connection")
            }
            connection.request(request.method, request.path, body=request.body or None, headers=headers)
            reply = connection.getresponse()
            return Response(status=reply.status, headers=dict(reply.getheaders()), body=reply.read())
        finally:
            connection.close()

    def _send(self, response: Response) -> None:
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        if response.declared:
            self.send_header("Content-Length", self._length(response))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(response.body if response.cut is None else response.body[: response.cut])
        if response.cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def _length(self, response: Response) -> str:
        said = next((value for name, value in response.headers.items() if name.lower() == "content-length"), None)
        if self.command == "HEAD" and said is not None:
            return said
        return str(len(response.body) if response.claimed is None else response.claimed)

    def _hang_up(self) -> None:
        # Linger 0 makes the system send a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
