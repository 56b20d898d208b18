"""A small KMS over HTTP with real keys, for what moto does not do: Ed25519, digests, time-outs, answers that go wrong."""

import base64
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ACCOUNT = "arn:aws:kms:eu-west-1:123456789012:key/"
CUT = "cut"  # hang up without an answer
WRONG = "wrong"  # answer with a signature over something else, or with another data key
SLOW = "slow"  # answer when nobody waits any more
EMPTY = "empty"  # an answer without what was asked for
GARBLED = "garbled"  # bytes that are no base64
TEXT = "text"  # no JSON
BUSY = "busy"  # the status says it, and no name

_BODIES = {EMPTY: b"{}", TEXT: b"<html>"}
_STATUS = {BUSY: 429, "KMSInternalException": 500}


@dataclass
class Kms:
    """A running service.

    Attributes:
        url: For ``AWS_ENDPOINT_URL_KMS``.
        keys: Private keys by ARN.
        script: (operation, what goes wrong): an error's name, or one of the faults above; each for one request.
        over: Set when nobody waits for slow answers any more.
        requests: Operations that were asked for, with their parameters.
    """

    url: str
    keys: dict[str, Any] = field(default_factory=dict)
    script: list[tuple[str, str]] = field(default_factory=list)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

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


def _wrapped(key: bytes, operation: str, asked: dict[str, Any]) -> dict[str, Any] | str:
    context = json.dumps(asked["EncryptionContext"], sort_keys=True).encode()
    if operation == "Encrypt":
        nonce = os.urandom(12)
        sealed = nonce + AESGCM(key).encrypt(nonce, base64.b64decode(asked["Plaintext"]), context)
        return {"CiphertextBlob": base64.b64encode(sealed).decode(), "KeyId": asked["KeyId"]}
    sealed = base64.b64decode(asked["CiphertextBlob"])
    try:
        opened = AESGCM(key).decrypt(sealed[:12], sealed[12:], context)
    except (InvalidTag, ValueError):
        return "InvalidCiphertextException"
    return {"Plaintext": base64.b64encode(opened).decode(), "KeyId": asked["KeyId"]}


def _answer(kms: Kms, operation: str, asked: dict[str, Any]) -> dict[str, Any] | str:
    private = kms.keys.get(asked["KeyId"])
    if private is None:
        return "NotFoundException"
    if isinstance(private, bytes) != (operation in ("Encrypt", "Decrypt")):
        return "InvalidKeyUsageException"
    if isinstance(private, bytes):
        return _wrapped(private, operation, asked)
    if operation == "GetPublicKey":
        der = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {"PublicKey": base64.b64encode(der).decode(), "SigningAlgorithms": _algorithms(private)}
    return {"Signature": base64.b64encode(_signed(private, asked)).decode()}


def _response(kms: Kms, operation: str, asked: dict[str, Any], fault: str | None) -> tuple[int, bytes]:
    """Status and body of an answer."""
    if fault in _BODIES:
        return 200, _BODIES[fault]
    if fault == WRONG:
        field = "Message" if "Message" in asked else "Plaintext"
        asked = {**asked, field: base64.b64encode(b"x" * 32).decode()}
    named = fault not in (None, WRONG, GARBLED, BUSY)
    answer = str(fault) if named else _answer(kms, operation, asked)
    if fault == BUSY:
        return _STATUS[BUSY], b"{}"
    if isinstance(answer, str):
        return _STATUS.get(answer, 400), json.dumps({"__type": answer, "message": ""}).encode()
    if fault == GARBLED:
        answer = {
            name: "=" if name in ("Signature", "CiphertextBlob", "Plaintext") else answer[name] for name in answer
        }
    return 200, json.dumps(answer).encode()


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
            if fault in (CUT, SLOW):
                self.close_connection = fault == CUT or kms.over.wait()
                return
            status, body = _response(kms, operation, asked, fault)
            self.send_response(status)
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
        kms.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
