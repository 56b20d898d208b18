"""Signed notes as others write and read them."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.records.policy import PublicKey
from shardrel.trust.checkpoint import read_steps
from shardrel.trust.keys import SigningKey, generate, key_id
from shardrel.trust.note import hint_of, read_note, sign_note, signed_by, verifier_key

# The example of the Go module golang.org/x/mod/sumdb/note.
NAME = "PeterNeumann"
VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
LINE = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def peters_key() -> PublicKey:
    raw = base64.b64decode(VERIFIER.split("+", 2)[2])[1:]
    der = Ed25519PublicKey.from_public_bytes(raw).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(name="peter", scheme="ed25519", public=der.hex())


def test_a_note_of_another_tool_is_read() -> None:
    key = peters_key()
    note = read_note(f"{TEXT}\n{LINE}")
    assert note.text == TEXT
    assert signed_by(note, NAME, [key]) == {key_id(key)}
    assert verifier_key(NAME, key) == VERIFIER


def test_a_signature_counts_under_its_name_alone() -> None:
    key = peters_key()
    assert signed_by(read_note(f"{TEXT}\n{LINE}"), "PaulNeumann", [key]) == frozenset()
    assert signed_by(read_note(f"{TEXT}\n{LINE.replace('Peter', 'Paul')}"), NAME, [key]) == frozenset()


@pytest.mark.parametrize("key", [generate("ed"), generate("ec", "ecdsa-sha2-nistp256")], ids=["ed25519", "ecdsa"])
def test_what_we_sign_we_read(key: SigningKey) -> None:
    other = generate("other")
    note = sign_note("one\n\ntwo\n", "example.com/log", [key, other])
    assert signed_by(read_note(note), "example.com/log", [key.public, peters_key()]) == {key_id(key.public)}
    assert read_note(note).signatures[0].hint == hint_of("example.com/log", key.public)
    changed = note.replace("two", "tvo")
    assert signed_by(read_note(changed), "example.com/log", [key.public, other.public]) == frozenset()


@pytest.mark.parametrize(
    "note",
    [
        "",
        TEXT,
        f"{TEXT}\n",
        f"{TEXT}{LINE}",
        f"{TEXT}\n{LINE}\n",
        f"{TEXT}\n{LINE.removesuffix(chr(10))}",
        f"{TEXT}\n{LINE.replace(chr(0x2014), '-')}",
        f"{TEXT}\n{LINE.replace('PeterNeumann', 'Peter+Neumann')}",
        f"{TEXT}\n{LINE.replace('PeterNeumann', 'Peter Neumann')}",
        f"{TEXT}\n{LINE.replace('=', '')}",
        f"{TEXT}\n{LINE.replace('AM=', 'AN=')}",
        f"{TEXT}\n\u2014 PeterNeumann AAAA\n",
        f"{TEXT}\t\n{LINE}",
        f"{TEXT}\n{LINE * 65}",
    ],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_note(note)
    assert caught.value.code == ErrorCode.INPUT_INVALID


HASH = base64.b64encode(b"h" * 32).decode()
STEP = f"old 0\n\nexample.com/log\n1\n{HASH}\n\n\u2014 example.com/log AAAAAAA=\n"


def test_a_step_is_read() -> None:
    [first, second] = read_steps(STEP + STEP.replace("old 0\n", f"old 1\n{HASH}\n"))
    assert (first.old, first.proof, first.checkpoint.size) == (0, (), 1)
    assert (second.old, second.proof, second.checkpoint.root) == (1, (b"h" * 32,), b"h" * 32)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        STEP[4:],
        "\n" + STEP,
        STEP + "\n",
        STEP + STEP[4:],
        STEP.replace("old 0", "old 00"),
        STEP.replace("old 0", "old -1"),
        STEP.replace("old 0\n", "old 0\nAAAA\n"),
        STEP.replace("old 0\n", "old 0\n" + f"{HASH}\n" * 64),
        STEP.replace("\n1\n", "\n01\n"),
        STEP.replace("\n1\n", "\n99999999999999999\n"),
        STEP.replace(HASH, "AAAA"),
        STEP.replace(HASH, HASH + "\nmore"),
        STEP.replace("example.com/log\n1", "1"),
    ],
)
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_steps(text)
    assert caught.value.code == ErrorCode.INPUT_INVALID
