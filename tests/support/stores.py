"""Fixtures: the stores of the product, each empty. ``tests/conftest.py`` registers them for every test."""

import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shardrel.store.local import LocalStore
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store

if TYPE_CHECKING:
    from shardrel.store.s3 import S3Store
    from shardrel.store.s3_requests import S3Settings
    from tests.support.fault_proxy import FaultProxy
    from tests.support.shared_server import Prepare, S3Server

# boto3 and moto are imported where they are used: most tests need neither, and both are slow to load.


@pytest.fixture(scope="session")
def seaweed_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Server]":
    """One SeaweedFS for the whole session, whatever the number of workers."""
    from tests.support.seaweed import seaweed

    yield from _shared("seaweed", seaweed, request, tmp_path_factory)


@pytest.fixture(scope="session")
def ministack_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Server]":
    """One ministack for the whole session."""
    from tests.support.ministack import ministack

    yield from _shared("ministack", ministack, request, tmp_path_factory)


@pytest.fixture(scope="session")
def ceph_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Server]":
    """One Ceph for the whole session."""
    from tests.support.ceph import ceph

    yield from _shared("ceph", ceph, request, tmp_path_factory)


def _shared(
    name: str, prepare: "Prepare", request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[S3Server]":
    from tests.support.shared_server import shared_server

    base = tmp_path_factory.getbasetemp()
    is_worker = hasattr(request.config, "workerinput")
    with shared_server((base.parent if is_worker else base) / name, prepare) as server:
        yield server


@pytest.fixture(scope="session")
def moto_process() -> "Iterator[S3Server]":
    """One moto for each worker."""
    from tests.support.moto_server import moto_server

    with moto_server() as server:
        yield server


def use(server: "S3Server", monkeypatch: pytest.MonkeyPatch) -> "S3Server":
    """Point this test's AWS configuration to a server."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def seaweed(seaweed_server: "S3Server", monkeypatch: pytest.MonkeyPatch) -> "S3Server":
    """A real S3 server, reached through the usual AWS environment."""
    return use(seaweed_server, monkeypatch)


@pytest.fixture
def ministack(ministack_server: "S3Server", monkeypatch: pytest.MonkeyPatch) -> "S3Server":
    """Another S3 server, reached through the usual AWS environment."""
    return use(ministack_server, monkeypatch)


@pytest.fixture
def ceph(ceph_server: "S3Server", monkeypatch: pytest.MonkeyPatch) -> "S3Server":
    """Ceph's S3 gateway, reached through the usual AWS environment."""
    return use(ceph_server, monkeypatch)


@pytest.fixture
def moto(moto_process: "S3Server", monkeypatch: pytest.MonkeyPatch) -> "S3Server":
    """An emulator for single requests, reached through the usual AWS environment."""
    return use(moto_process, monkeypatch)


@pytest.fixture(scope="session")
def running_proxy(moto_process: "S3Server") -> "Iterator[FaultProxy]":
    """One proxy in front of moto for each worker."""
    from tests.support.fault_proxy import fault_proxy

    with fault_proxy(moto_process.endpoint_url, one_at_a_time=True) as running:
        yield running


@pytest.fixture
def proxy(running_proxy: "FaultProxy", moto: "S3Server") -> "FaultProxy":
    """A proxy without any faults yet, in front of moto."""
    running_proxy.reset()
    return running_proxy


@cache
def client_of(endpoint_url: str, read_timeout: float = 60) -> Any:
    """Making a client is slow, and a client keeps nothing of a test."""
    from shardrel.store.s3_requests import connect

    return connect(endpoint_url, quick_settings(read_timeout))


def quick_settings(read_timeout: float = 60) -> "S3Settings":
    """Short pauses: what a test shows never depends on how long a client waits."""
    from shardrel.store.s3_requests import S3Settings

    return S3Settings(
        attempts=4, first_pause=0.001, longest_pause=0.01, connect_timeout=5, read_timeout=read_timeout, connections=8
    )


def s3_store(bucket: str, endpoint_url: str, *, read_timeout: float = 60) -> "S3Store":
    """A store under a prefix of its own. The environment must have the server's credentials."""
    from shardrel.store.s3 import S3Store

    prefix = f"test-{uuid.uuid4().hex[:12]}"
    return S3Store(bucket, prefix, client=client_of(endpoint_url, read_timeout), settings=quick_settings(read_timeout))


def make_store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store: memory, local, moto, seaweed, ministack or ceph, the last four also -versioned."""
    if kind == "memory":
        return MemoryStore()
    if kind == "local":
        return LocalStore(tmp_path / "store")
    name, _, versioned = kind.partition("-")
    server: S3Server = request.getfixturevalue(name)
    store = s3_store(server.versioned if versioned else server.plain, server.endpoint_url)
    return store.speaking(quoted_tokens=False) if name == "ceph" else store
