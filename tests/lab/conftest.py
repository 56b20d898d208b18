"""Two drills whose bundles several tests look at."""

from pathlib import Path

import pytest

from shardrel.lab.fashion import Pins
from shardrel.trust.keys import SigningKey, generate
from tests.support.lab import Drilled, a_drill, make_data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pins]:
    folder = tmp_path_factory.mktemp("lab") / "data"
    return folder, make_data(folder)


@pytest.fixture(scope="session")
def key() -> SigningKey:
    return generate("lab")


def _drilled(folder: Path, data: tuple[Path, Pins], key: SigningKey, barrier: str) -> Drilled:
    return Drilled(folder=folder, done=a_drill(folder, data, barrier, key), key=key, pins=data[1])


@pytest.fixture(scope="session")
def fsync(tmp_path_factory: pytest.TempPathFactory, data: tuple[Path, Pins], key: SigningKey) -> Drilled:
    return _drilled(tmp_path_factory.mktemp("lab") / "fsync", data, key, "commit-after-file-fsync")


@pytest.fixture(scope="session")
def rename(tmp_path_factory: pytest.TempPathFactory, data: tuple[Path, Pins], key: SigningKey) -> Drilled:
    return _drilled(tmp_path_factory.mktemp("lab") / "rename", data, key, "commit-after-rename")
