"""Keys and the folder that keeps them."""

import base64
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from shardrel.errors import ErrorCode, FormatError, InvalidInputError, TrustError
from shardrel.records.policy import PublicKey
from shardrel.trust import keyring
from shardrel.trust.keys import Scheme, check_public, from_pem, generate, key_id, verifies

SCHEMES: tuple[Scheme, ...] = ("ed25519", "ecdsa-sha2-nistp256")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_key_verifies_its_own_signatures_and_no_others(scheme: Scheme) -> None:
    key, other = generate("one", scheme), generate("two", scheme)
    signature = key.sign(b"data")
    assert verifies(key.public, signature, b"data")
    assert not verifies(key.public, signature, b"datb")
    assert not verifies(other.public, signature, b"data")
    assert not verifies(key.public, b"", b"data")


def test_a_private_key_does_not_show_itself() -> None:
    key = generate("one")
    assert "private" not in repr(key)


def test_another_encoding_of_a_key_is_refused() -> None:
    """Else one key could be listed under two ids and meet a threshold of two."""
    key = generate("one", "ecdsa-sha2-nistp256")
    public = load_der_public_key(bytes.fromhex(key.public.public))
    assert isinstance(public, ec.EllipticCurvePublicKey)
    point = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    head = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    compressed = PublicKey(name="one", scheme="ecdsa-sha2-nistp256", public=(head + point).hex())
    with pytest.raises(InvalidInputError) as caught:
        check_public(compressed)
    assert caught.value.code == ErrorCode.INPUT_KEY


def test_a_key_of_another_scheme_is_refused() -> None:
    key = generate("one")
    with pytest.raises(InvalidInputError):
        check_public(PublicKey(name="one", scheme="ecdsa-sha2-nistp256", public=key.public.public))


def test_an_rsa_key_is_refused() -> None:
    pem = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(TrustError) as caught:
        from_pem("rsa", pem)
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_a_keyring_is_private_and_keeps_its_keys(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    first = keyring.ensure(folder)
    assert keyring.ensure(folder) == first
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.pem")} == {
        f"{name}.pem": 0o600 for name in keyring.DEFAULT_NAMES
    }
    assert keyring.names(folder) == sorted(keyring.DEFAULT_NAMES)
    assert keyring.load(folder, "admin").public == first["admin"]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    keyring.save(tmp_path / "keys", generate("one"))
    with pytest.raises(InvalidInputError) as caught:
        keyring.save(tmp_path / "keys", generate("one"))
    assert caught.value.code == ErrorCode.INPUT_KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one",))
    (folder / "one.pem").chmod(mode)
    with pytest.raises(TrustError) as caught:
        keyring.load(folder, "one")
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    folder.chmod(0o770)
    with pytest.raises(TrustError):
        keyring.ensure(folder)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_refused_whenever_a_key_is_read(tmp_path: Path, mode: int) -> None:
    """Whoever may write there may put a key of his own in place of a private or a public one."""
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one",))
    folder.chmod(mode)
    for read in (
        lambda: keyring.load(folder, "one"),
        lambda: keyring.load_file(folder / "one.pem"),
        lambda: keyring.public(folder, "one"),
    ):
        with pytest.raises(TrustError) as caught:
            read()
        assert caught.value.code == ErrorCode.TRUST_KEY_FILE
    folder.chmod(0o755)
    assert keyring.load(folder, "one").name == "one"


@pytest.mark.parametrize("given_away", ["one.pem", "."])
def test_a_key_or_a_folder_that_somebody_else_owns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_away: str
) -> None:
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one",))
    if os.geteuid() == 0:
        os.chown(folder / given_away, 4243, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(TrustError) as caught:
        keyring.load(folder, "one")
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_a_private_key_beside_another_public_key_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one", "two"))
    (folder / "one.pem").rename(folder / "swap")
    (folder / "two.pem").rename(folder / "one.pem")
    (folder / "swap").rename(folder / "two.pem")
    for name in ("one", "two"):
        with pytest.raises(TrustError) as caught:
            keyring.load(folder, name)
        assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_a_linked_private_key_is_refused(tmp_path: Path) -> None:
    keyring.ensure(tmp_path / "keys", ("one",))
    (tmp_path / "two.pem").symlink_to(tmp_path / "keys" / "one.pem")
    with pytest.raises(TrustError):
        keyring.load_file(tmp_path / "two.pem")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_passphrase_is_needed_and_has_to_be_right(tmp_path: Path, scheme: Scheme) -> None:
    key = generate("one", scheme)
    keyring.save(tmp_path / "keys", key, passphrase=b"open sesame")
    asked: list[str] = []

    def ask(name: str) -> bytes:
        asked.append(name)
        return b"open sesame"

    assert keyring.load(tmp_path / "keys", "one", ask=ask).public == key.public
    assert asked == ["one"]
    for wrong in (None, b"", b"shut"):
        with pytest.raises(TrustError) as caught:
            keyring.load(tmp_path / "keys", "one", ask=lambda _, given=wrong: given)
        assert caught.value.code == ErrorCode.TRUST_PASSPHRASE


def test_nobody_is_asked_for_a_passphrase_that_there_is_not(tmp_path: Path) -> None:
    keyring.save(tmp_path / "keys", generate("one"))

    def ask(name: str) -> bytes:
        raise AssertionError(name)

    assert keyring.load(tmp_path / "keys", "one", ask=ask).name == "one"


@pytest.mark.parametrize("passphrase", [b"", b" ", b"\n"])
def test_an_empty_passphrase_protects_nothing(tmp_path: Path, passphrase: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        keyring.save(tmp_path / "keys", generate("one"), passphrase=passphrase)
    assert caught.value.code == ErrorCode.INPUT_KEY


def test_a_key_under_a_passphrase_is_pkcs8_as_others_read_it() -> None:
    key = generate("one")
    pem = key.to_pem(b"open sesame")
    private = load_pem_private_key(pem, b"open sesame")
    assert isinstance(private, Ed25519PrivateKey)
    assert private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo).hex() == key.public.public
    with pytest.raises(TypeError):
        load_pem_private_key(pem, None)
    # PBKDF2 with the number of rounds that the page on trust names, and AES-256-CBC.
    der = base64.b64decode(b"".join(pem.splitlines()[1:-1]))
    for part in ("06092a864886f70d01050c", "0203" + f"{600_000:06x}", "060960864801650304012a"):
        assert bytes.fromhex(part) in der
    assert pem != key.to_pem(b"open sesame")


def test_a_damaged_key_file_is_no_question_of_passphrases(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one",))
    (folder / "one.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(TrustError) as caught:
        keyring.load(folder, "one")
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


@pytest.mark.parametrize("text", ["", "{}", '{"name":"one"}', "[1]", '{"name":"one","public":"zz","scheme":"ed25519"}'])
def test_a_public_record_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "keys"
    keyring.ensure(folder, ("one",))
    (folder / "one.pub.json").write_text(text)
    with pytest.raises(FormatError):
        keyring.public(folder, "one")


def test_a_public_record_without_end_is_not_read_to_it(tmp_path: Path) -> None:
    path = tmp_path / "one.pub.json"
    path.write_bytes(b" " * (1 << 20))
    with pytest.raises(FormatError) as caught:
        keyring.load_public_file(path)
    assert caught.value.code == ErrorCode.FORMAT_TOO_LARGE


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_private_key_is_a_plain_file(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    path = folder / "one.pem"
    path.mkdir(mode=0o700) if kind == "folder" else os.mkfifo(path, 0o600)
    with pytest.raises(TrustError) as caught:
        keyring.load(folder, "one")
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_a_missing_key_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        keyring.load(tmp_path, "nobody")
    assert caught.value.code == ErrorCode.INPUT_KEY


def test_a_public_record_that_a_crash_left_out_is_derived(tmp_path: Path) -> None:
    key = generate("one")
    keyring.save(tmp_path / "keys", key)
    (tmp_path / "keys" / "one.pub.json").unlink()
    assert keyring.public(tmp_path / "keys", "one") == key.public
    assert keyring.load_public_file(tmp_path / "keys" / "one.pub.json") == key.public


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        keyring.load(tmp_path, "../one")


def test_the_id_is_the_digest_of_the_key_and_not_of_its_name() -> None:
    key = generate("one").public
    renamed = PublicKey(name="two", scheme=key.scheme, public=key.public)
    assert key_id(key) == key_id(renamed)
