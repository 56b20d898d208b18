"""Tests on several hosts are collected where the machine can make them."""

from pathlib import Path

from tests.support.namespaces import available

_HOSTS = "test_hosts"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Not those that need network namespaces, where there are none."""
    return True if collection_path.name.startswith(_HOSTS) and not available() else None
