"""Credentials, region and endpoint come from where AWS users keep them: profiles, and programs that hand credentials out."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, UnavailableError
from shardrel.store.layout import object_key
from shardrel.store.open import open_store
from shardrel.store.port import Written
from tests.support.shared_server import ACCESS_KEY, SECRET_KEY, S3Server

DATA = b"bytes"
KEY = object_key(digest_of(DATA))


CONFIG = """
[profile training]
region = us-east-1
services = ours
[services ours]
s3 =
  endpoint_url = ENDPOINT
"""
KEYS = f"aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"


@pytest.fixture
def written(seaweed: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], bool]:
    """Writes the two files of AWS, and an object by them; the environment names no key, no region and no server."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_PROFILE", "training")

    def write(config: str, credentials: str) -> bool:
        for variable, text in (("AWS_CONFIG_FILE", config), ("AWS_SHARED_CREDENTIALS_FILE", credentials)):
            (tmp_path / variable).write_text(text.replace("ENDPOINT", seaweed.endpoint_url))
            monkeypatch.setenv(variable, str(tmp_path / variable))
        store = open_store(f"s3://{seaweed.plain}/{os.urandom(8).hex()}")
        assert isinstance(store.create(KEY, DATA), Written)
        found = store.read(KEY, max_bytes=100)
        return found is not None and found.data == DATA

    return write


def test_a_profile_gives_keys_region_and_server(written: Callable[[str, str], bool]) -> None:
    assert written(CONFIG, f"[training]\n{KEYS}")


def test_a_program_that_a_profile_names_hands_credentials_out(
    written: Callable[[str, str], bool], tmp_path: Path
) -> None:
    answer = {"Version": 1, "AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}
    program = tmp_path / "credentials.py"
    program.write_text(f"print({json.dumps(json.dumps(answer))})")
    named = f"[profile training]\ncredential_process = {sys.executable} {program}"
    assert written(CONFIG.replace("[profile training]", named), "")


def test_another_profile_is_not_taken(written: Callable[[str, str], bool]) -> None:
    with pytest.raises(UnavailableError) as failed:
        written(CONFIG, f"[other]\n{KEYS}")
    assert failed.value.code is ErrorCode.STORE_DENIED


def test_keys_that_the_server_does_not_know_are_refused(written: Callable[[str, str], bool]) -> None:
    with pytest.raises(UnavailableError) as failed:
        written(CONFIG, f"[training]\n{KEYS.replace(SECRET_KEY, SECRET_KEY[::-1])}")
    assert failed.value.code is ErrorCode.STORE_DENIED
