"""A server that sends a byte now and then holds nobody for ever."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.layout import gate_key
from shardrel.store.s3 import S3Store
from tests.support.stores import client_of, quick_settings

SIZE = 100_000


@dataclass
class Trickle:
    """A server whose every body has ``SIZE`` bytes, sent in pieces with a pause after each."""

    url: str
    piece: int = SIZE
    pause: float = 0.0
    sent: list[int] = field(default_factory=list)


@pytest.fixture
def trickle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trickle]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    listener = socket.create_server(("127.0.0.1", 0))
    server = Trickle(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            while connection.recv(65536):
                head = f'HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nETag: "e"\r\n\r\n'
                connection.sendall(head.encode())
                server.sent.append(0)
                while server.sent[-1] < SIZE and not over.wait(server.pause):
                    try:
                        connection.sendall(b"x" * server.piece)
                    except OSError:
                        return
                    server.sent[-1] += server.piece

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield server
    over.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def store(server: Trickle, *, least_rate: int) -> S3Store:
    settings = replace(quick_settings(), read_timeout=0.1, least_rate=least_rate, attempts=2, patience=30.0)
    return S3Store("plain", "p", client=client_of(server.url), settings=settings)


def test_a_body_that_trickles_is_given_up(trickle: Trickle) -> None:
    trickle.piece, trickle.pause = 1, 0.01
    with pytest.raises(UnavailableError) as caught:
        store(trickle, least_rate=SIZE).read(gate_key("data"), max_bytes=SIZE)
    assert caught.value.code == ErrorCode.STORE_UNAVAILABLE
    # Asked twice, and neither time to its end.
    assert len(trickle.sent) == 2
    assert max(trickle.sent) < SIZE


def test_a_body_that_is_slow_but_comes_is_read(trickle: Trickle) -> None:
    trickle.piece, trickle.pause = SIZE // 10, 0.02
    stored = store(trickle, least_rate=SIZE // 100).read(gate_key("data"), max_bytes=SIZE)
    assert stored is not None
    assert stored.data == b"x" * SIZE
