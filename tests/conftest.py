"""Settings of all tests: no clock in hypothesis, and nothing of the caller's environment."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.stores import (
    ceph,
    ceph_server,
    ministack,
    ministack_server,
    moto,
    moto_process,
    proxy,
    running_proxy,
    seaweed,
    seaweed_server,
)

__all__ = [
    "ceph",
    "ceph_server",
    "ministack",
    "ministack_server",
    "moto",
    "moto_process",
    "proxy",
    "running_proxy",
    "seaweed",
    "seaweed_server",
]

# Machines that run tests are slow and shared; how long an example takes says nothing.
settings.register_profile("shardrel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shardrel")

_OURS = ("SHARDREL_", "AWS_")


@pytest.fixture(autouse=True)
def _environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not find the store, the keys or the credentials of whoever runs it."""
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
