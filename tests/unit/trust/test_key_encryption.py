"""Wrapped keys: what they are bound to, and by which code each failure is told from the others."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import boto3
import pytest
from botocore.stub import Stubber
from msgspec.structs import replace as changed

from shardrel.errors import ErrorCode, ShardrelError
from shardrel.kms.key_reference import open_key
from shardrel.kms.service import KmsSettings
from shardrel.kms.wrapping import KmsKey, kms_key
from shardrel.records.encryption import ShardKey
from shardrel.trust.key_encryption import KeyEncryption, Place, Unlocked, check_reader, new_data_key, unlock
from shardrel.trust.key_files import KeyFile, load_key_file, make_key_file
from tests.support.mocked_aws import mocked_aws

PLACE = Place(dataset="data", snapshot="sha256:1", name="shard-00000-of-00002", schema="sha256:2", key_version="1")


@dataclass(frozen=True, kw_only=True)
class Declared:
    key_version: str
    key_fingerprint: str


@pytest.fixture(params=["file", "awskms"])
def keys(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """References of two keys of one kind."""
    if request.param == "file":
        yield [f"file:{make_key_file(tmp_path / 'keys', name)[0]}" for name in ("one", "two")]
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mocked_aws():
        client = boto3.client("kms", region_name="eu-west-1")
        yield [f"awskms:{client.create_key()['KeyMetadata']['Arn']}#1" for _ in range(2)]


def declared_by(key: KeyEncryption) -> Declared:
    return Declared(key_version="1", key_fingerprint=key.fingerprint)


def code_of(key: KeyEncryption | None, declared: Declared, record: ShardKey | None, place: Place) -> ErrorCode:
    with pytest.raises(ShardrelError) as caught:
        unlock(declared, [] if key is None else [key], record, place)
    return caught.value.code


def test_each_failure_has_its_own_code_and_the_first_one_counts(keys: list[str]) -> None:
    key, other = map(open_key, keys)
    made = new_data_key(key, PLACE)
    declared = declared_by(key)
    assert unlock(declared, [other, key], made.record, PLACE).key == made.key
    elsewhere = replace(PLACE, name="shard-00001-of-00002")
    swapped = new_data_key(key, elsewhere).record
    edited = changed(
        made.record, wrapped=made.record.wrapped[:-2] + ("00" if made.record.wrapped[-2:] != "00" else "01")
    )
    foreign_check = changed(made.record, check=swapped.check)
    newer = replace(declared, key_version="2")
    assert code_of(None, declared, made.record, PLACE) == ErrorCode.ENCRYPTION_READER
    assert code_of(other, newer, swapped, PLACE) == ErrorCode.ENCRYPTION_KEY
    assert code_of(key, newer, swapped, PLACE) == ErrorCode.ENCRYPTION_KEY_VERSION
    for record in (swapped, edited, None, changed(made.record, wrapped="no hex"), changed(made.record, wrapped="")):
        assert code_of(key, declared, record, PLACE) == ErrorCode.ENCRYPTION_WRAPPED_KEY
    assert code_of(key, declared, made.record, replace(PLACE, dataset="other")) == ErrorCode.ENCRYPTION_WRAPPED_KEY
    assert code_of(key, declared, made.record, replace(PLACE, key_version="2")) == ErrorCode.ENCRYPTION_WRAPPED_KEY
    assert code_of(key, declared, foreign_check, PLACE) == ErrorCode.ENCRYPTION_KEY_CHECK


def test_a_data_key_is_fresh_and_unwrapped_once(keys: list[str]) -> None:
    key = open_key(keys[0])
    one, two = new_data_key(key, PLACE), new_data_key(key, PLACE)
    assert one.key != two.key
    assert one.record.wrapped != two.record.wrapped
    unlocked, declared = Unlocked([key]), declared_by(key)
    assert unlocked.data_key(declared, one.record, PLACE) is unlocked.data_key(declared, one.record, PLACE)
    assert unlocked.data_key(declared, two.record, PLACE).key == two.key


def test_a_reference_without_a_version_goes_with_any() -> None:
    key = open_key("awskms:arn:aws:kms:eu-west-1:123456789012:key/0")
    assert check_reader(replace(declared_by(key), key_version="7"), [key]) is key


def test_a_kms_that_refuses_is_not_a_wrong_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mocked_aws():
        client = boto3.client("kms", region_name="eu-west-1")
        arn = client.create_key()["KeyMetadata"]["Arn"]
        key = open_key(f"awskms:{arn}")
        made = new_data_key(key, PLACE)
        with Stubber(cast("KmsKey", key).service.client) as stubber:  # moto's KMS asks for no rights
            stubber.add_client_error("decrypt", "AccessDeniedException")
            assert code_of(key, declared_by(key), made.record, PLACE) == ErrorCode.KMS_DENIED
        absent = open_key(f"awskms:{arn[:-4]}beef")
        assert code_of(absent, declared_by(absent), made.record, PLACE) == ErrorCode.INPUT_KEY
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://127.0.0.1:1")
    nobody = kms_key("arn:aws:kms:eu-west-1:123456789012:key/0", None, settings=KmsSettings(attempts=1))
    with pytest.raises(ShardrelError) as caught:
        new_data_key(nobody, PLACE)
    assert caught.value.code == ErrorCode.KMS_UNAVAILABLE


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "file:",
        "awskms:",
        "KEY",
        "awskms:alias/prod",
        "awskms:arn:aws:kms:eu-west-1:123456789012:key/0#",
        "http://k",
    ],
)
def test_what_names_no_key_is_refused_and_not_quoted(reference: str) -> None:
    with pytest.raises(ShardrelError) as caught:
        open_key(reference)
    assert caught.value.code == ErrorCode.INPUT_KEY
    assert "5f5f" not in str(caught.value) + str(caught.value.context)


def test_a_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    path, made = make_key_file(tmp_path / "keys", "prod", "2026-11")
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key_file(path) == made
    with pytest.raises(ShardrelError) as caught:
        make_key_file(tmp_path / "keys", "prod")
    assert caught.value.code == ErrorCode.INPUT_KEY
    with pytest.raises(ShardrelError) as caught:
        make_key_file(tmp_path / "keys", "../prod")
    assert caught.value.code == ErrorCode.INPUT_KEY
    path.chmod(0o640)
    with pytest.raises(ShardrelError) as caught:
        load_key_file(path)
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE


def test_key_bytes_show_in_no_repr_and_no_error(tmp_path: Path) -> None:
    path, made = make_key_file(tmp_path / "keys", "prod")
    data_key = new_data_key(made, PLACE)
    told = [repr(made), str(made), repr(data_key), repr(KeyFile(key=made.key.hex(), version="1"))]
    hidden = [made.key.hex(), repr(made.key)[2:-1], data_key.key.hex(), repr(data_key.key)[2:-1]]
    assert not [text for text in told for key in hidden if key in text]
    path.chmod(0o600)
    path.write_text(path.read_text().replace('"version"', '"versoin"'))
    with pytest.raises(ShardrelError) as caught:
        load_key_file(path)
    assert caught.value.code == ErrorCode.TRUST_KEY_FILE
    assert caught.value.__cause__ is None
    os.unlink(path)
    with pytest.raises(ShardrelError) as caught:
        load_key_file(path)
    assert caught.value.code == ErrorCode.INPUT_KEY


def test_every_process_has_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    key = cast("KmsKey", open_key("awskms:arn:aws:kms:eu-west-1:123456789012:key/0"))
    before = key.service.client
    assert key.service.client is before
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert key.service.client is not before
