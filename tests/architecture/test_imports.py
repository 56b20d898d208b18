"""Layers, and what importing the packages costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "boto3", "botocore", "typer", "rich")


def loaded_by(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter has after the statement."""
    program = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_layers_of_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("package", ["shardrel", "verifier"])
def test_importing_a_package_is_light(package: str) -> None:
    modules = loaded_by(f"import {package}")
    assert not modules.intersection(HEAVY)
    assert not any(name.split(".")[0] == "publisher" for name in modules)


def test_the_whole_verifier_loads_neither_the_publisher_nor_torch() -> None:
    modules = loaded_by("import verifier.verify, verifier.digest")
    forbidden = {"shardrel.canonical.rows", "shardrel.canonical.schema", "shardrel.membership", "torch"}
    assert not modules & forbidden
    assert not any(name.split(".")[0] == "publisher" for name in modules)


def test_the_order_of_samples_needs_no_torch() -> None:
    assert not loaded_by("import shardrel.data.order, shardrel.data.mix, shardrel.data.ledger") & {"torch", "pyarrow"}


def test_help_is_shown_without_loading_arrow_or_a_store() -> None:
    modules = loaded_by("from shardrel.cli.main import build_app; build_app()")
    assert not modules & {"pyarrow", "datafusion", "torch", "boto3", "cryptography", "numpy"}
