"""A small KMS over HTTP with real keys, for what moto does not do: Ed25519, digests, and answers that go wrong."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ACCOUNT = "arn:aws:kms:eu-west-1:123456789012:key/"
CUT = "cut"  # hang up without an answer
WRONG = "wrong"  # answer with a signature over something else


@dataclass
class Kms:
    """A running service.

    Attributes:
        url: For ``AWS_ENDPOINT_URL_KMS``.
        keys: Private keys by ARN.
        script: (operation, what goes wrong): an error's name, ``cut`` or ``wrong``; each for one request.
        requests: Operations that were asked for, with their parameters.
    """

    url: str
    keys: dict[str, Any] = field(default_factory=dict)
    script: list[tuple[str, str]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, name: str, private: Any) -> str:
        """A key of this name; its ARN."""
        self.keys[ACCOUNT + name] = private
        return ACCOUNT + name

    def fail(self, operation: str, fault: str, times: int = 1) -> None:
        """Let the next requests of an operation go wrong."""
        self.script += [(operation, fault)] * times

    def take(self, operation: str) -> str | None:
        """What goes wrong with a request; spends it."""
        at = next((at for at, step in enumerate(self.script) if step[0] == operation), None)
        return None if at is None else self.script.pop(at)[1]


def _algorithms(private: Any) -> list[str]:
    if isinstance(private, Ed25519PrivateKey):
        return ["ED25519_SHA_512", "ED25519_PH_SHA_512"]
    return ["ECDSA_SHA_256"] if private.curve.key_size == 256 else ["ECDSA_SHA_384"]


def _signed(private: Any, asked: dict[str, Any]) -> bytes:
    message = base64.b64decode(asked["Message"])
    assert 1 <= len(message) <= 4096
    if isinstance(private, Ed25519PrivateKey):
        assert (asked["SigningAlgorithm"], asked["MessageType"]) == ("ED25519_SHA_512", "RAW")
        return private.sign(message)
    assert asked["SigningAlgorithm"] == "ECDSA_SHA_256"
    hashed = Prehashed(SHA256()) if asked["MessageType"] == "DIGEST" else SHA256()
    return bytes(private.sign(message, ec.ECDSA(hashed)))


def _answer(kms: Kms, operation: str, asked: dict[str, Any]) -> dict[str, Any] | str:
    private = kms.keys.get(asked["KeyId"])
    if private is None:
        return "NotFoundException"
    if operation == "GetPublicKey":
        der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {"PublicKey": base64.b64encode(der).decode(), "SigningAlgorithms": _algorithms(private)}
    return {"Signature": base64.b64encode(_signed(private, asked)).decode()}


@contextmanager
def kms_server() -> Iterator[Kms]:
    """A service on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            operation = self.headers["X-Amz-Target"].partition(".")[2]
            kms.requests.append((operation, asked))
            fault = kms.take(operation)
            if fault == CUT:
                self.close_connection = True
                return
            if fault == WRONG:
                asked["Message"] = base64.b64encode(b"x" * 32).decode()
            answer = fault if fault not in (None, WRONG) else _answer(kms, operation, asked)
            body = json.dumps({"__type": answer, "message": ""} if isinstance(answer, str) else answer).encode()
            self.send_response(400 if isinstance(answer, str) else 200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kms = Kms(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kms
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
