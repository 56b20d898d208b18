"""A checkout that is named has to be the program that runs."""

import subprocess
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError, RefusedError
from shardrel.lab.installed import PACKAGES, check_checkout, package_digest


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    home = tmp_path / "checkout"
    for name in PACKAGES:
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text(f'"""{name}."""\n')
    git(home, "init", "-q")
    git(home, "add", ".")
    git(home, "-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "-m", "first")
    return home


def git(home: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, check=True).stdout.strip()


def refused(home: Path, revision: str, installed: Path) -> str:
    with pytest.raises(RefusedError) as err:
        check_checkout(home, revision, installed)
    assert err.value.code == ErrorCode.RUN_VERSION
    return err.value.message


def test_a_clean_checkout_of_the_installed_files_is_accepted(checkout: Path) -> None:
    check_checkout(checkout, git(checkout, "rev-parse", "HEAD"), checkout)


def test_another_revision_a_changed_file_and_another_program_are_refused(checkout: Path, tmp_path: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert "revision" in refused(checkout, "0" * 40, checkout)
    installed = tmp_path / "installed"
    subprocess.run(["cp", "-r", str(checkout), str(installed)], check=True)
    (installed / "shardrel" / "__init__.py").write_text("another = 1\n")
    assert "installed" in refused(checkout, head, installed)
    (installed / "shardrel" / "__init__.py").write_text('"""shardrel."""\n')
    check_checkout(checkout, head, installed)
    (installed / "shardrel" / "more.py").write_text("")
    assert "installed" in refused(checkout, head, installed)
    (checkout / "note").write_text("")
    assert "clean" in refused(checkout, head, checkout)


def test_what_is_no_revision_or_no_checkout_is_a_wrong_call(checkout: Path, tmp_path: Path) -> None:
    for home, revision in ((checkout, "main"), (tmp_path, "0" * 40)):
        with pytest.raises(InvalidInputError) as err:
            check_checkout(home, revision, checkout)
        assert err.value.code == ErrorCode.INPUT_INVALID


def test_the_digest_of_a_program_is_of_names_and_bytes(checkout: Path) -> None:
    before = package_digest(checkout)
    (checkout / "publisher" / "note.txt").write_text("no program")
    assert package_digest(checkout) == before
    (checkout / "publisher" / "__init__.py").rename(checkout / "publisher" / "other.py")
    assert package_digest(checkout) != before
