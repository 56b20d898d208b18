import subprocess
import sys
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.store.local import LocalStore
from shardrel.store.open import open_store


@pytest.mark.parametrize("url", ["{path}", "file://{path}", "file://localhost{path}"])
def test_paths_and_file_urls_open_a_folder(tmp_path: Path, url: str) -> None:
    store = open_store(url.format(path=tmp_path / "a store"))
    assert isinstance(store, LocalStore)
    assert store.url == f"file://{tmp_path}/a store"


def test_file_urls_are_unquoted(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}/a%20b").url == f"file://{tmp_path}/a b"


@pytest.mark.usefixtures("moto")
@pytest.mark.parametrize(
    ("url", "shown"),
    [("s3://plain", "s3://plain"), ("s3://plain/", "s3://plain"), ("s3://plain/a/b/", "s3://plain/a/b")],
)
def test_s3_urls_open_a_bucket(url: str, shown: str) -> None:
    assert open_store(url).url == shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://host/bucket",
        "s3:bucket",
        "s3://",
        "s3:///prefix",
        "s3://bucket//a",
        "s3://bucket/../a",
        "s3://bucket/a b",
        "file:relative",
        "file://host/folder",
        "file:///folder?x",
        "file:///folder%00",
        "memory:",
        "nul\0byte",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        open_store(url)
    assert refused.value.code is ErrorCode.INPUT_INVALID


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        open_store("s3://bucket", endpoint_url="localhost:9000")


@pytest.mark.parametrize("url", ["{path}", "file://{path}"])
def test_a_folder_is_opened_also_where_the_environment_names_an_endpoint(tmp_path: Path, url: str) -> None:
    store = open_store(url.format(path=tmp_path), endpoint_url="http://localhost:9000")
    assert store.url == f"file://{tmp_path}"


def test_a_local_store_loads_no_boto3(tmp_path: Path) -> None:
    program = f"import sys; from shardrel.store.open import open_store; open_store({str(tmp_path)!r}); print('boto3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
