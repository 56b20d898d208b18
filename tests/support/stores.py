"""Fixtures: the stores of the product, each empty. ``tests/conftest.py`` registers them for every test."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from shardrel.store.s3 import S3Settings, S3Store
from tests.support.moto_server import moto_server
from tests.support.seaweed import S3Server, shared_server

# Short pauses: what a test shows never depends on how long a client waits.
QUICK = S3Settings(attempts=4, first_pause=0.001, longest_pause=0.01, connect_timeout=5, read_timeout=60)


@pytest.fixture(scope="session")
def seaweed_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[S3Server]:
    """One SeaweedFS for the whole session, whatever the number of workers."""
    base = tmp_path_factory.getbasetemp()
    with shared_server((base if worker_id == "master" else base.parent) / "seaweed") as server:
        yield server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One moto for each worker."""
    with moto_server() as server:
        yield server


def use(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Point this test's AWS configuration to a server."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def seaweed(seaweed_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A real S3 server, reached through the usual AWS environment."""
    return use(seaweed_server, monkeypatch)


def s3_store(bucket: str, endpoint_url: str | None = None, settings: S3Settings = QUICK) -> S3Store:
    """A store under a prefix of its own."""
    return S3Store(bucket, f"test-{uuid.uuid4().hex[:12]}", endpoint_url=endpoint_url, settings=settings)


def make_store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store: memory, local, moto, moto-versioned, seaweed or seaweed-versioned."""
    if kind == "memory":
        return MemoryStore()
    if kind == "local":
        return LocalStore(tmp_path / "store")
    name, _, versioned = kind.partition("-")
    server: S3Server = request.getfixturevalue("seaweed_server" if name == "seaweed" else "moto")
    use(server, request.getfixturevalue("monkeypatch"))
    return s3_store(server.versioned if versioned else server.plain)
