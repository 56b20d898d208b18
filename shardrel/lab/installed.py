"""The bytes of the program that runs, and the checkout that they are of. Source: schemas/SPEC.md#crash-lab."""

import hashlib
import platform
import subprocess
from pathlib import Path

import torch

from shardrel.canonical import json
from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError
from shardrel.lab.evidence import Machine

PACKAGES = ("publisher", "shardrel", "verifier")
_HOME = Path(__file__).resolve().parents[2]
_GIT_PATIENCE_S = 120.0


def package_digest(home: Path = _HOME) -> Digest:
    """Digest over path and SHA-256 of every Python file of the installed packages."""
    return digest_of(json.encode([[name, digest_of((home / name).read_bytes())] for name in _files(home)]))


def machine() -> Machine:
    """What decides bits beside the program."""
    return Machine(
        python=platform.python_version(), torch=str(torch.__version__), kernels=torch.backends.cpu.get_cpu_capability()
    )


def check_checkout(repository: Path, revision: str, home: Path = _HOME) -> None:
    """The checkout is clean and at this revision, and the installed files are its files, byte for byte.

    Raises:
        InvalidInputError: ``input.invalid`` where it is no checkout, or the revision is not 40 digits.
        RefusedError: ``run.version-disagreement``.
    """
    if len(revision) != 40 or set(revision) - set("0123456789abcdef"):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a revision is 40 lower-case hex digits")
    if _git(repository, "rev-parse", "--verify", "HEAD^{commit}").strip() != revision:
        raise _differs("the checkout is at another revision")
    if _git(repository, "status", "--porcelain=v1", "--untracked-files=normal", "--ignore-submodules=none"):
        raise _differs("the checkout is not clean")
    listed = _git(repository, "ls-tree", "-r", "-z", revision, "--", *PACKAGES).split("\0")
    blobs = {name: head.split()[2] for head, _, name in (line.partition("\t") for line in listed if line)}
    tracked = {name: blob for name, blob in blobs.items() if name.endswith(".py")}
    if tracked != {name: _blob((home / name).read_bytes()) for name in _files(home)}:
        raise _differs("the installed package is not that of the checkout")


def _files(home: Path) -> list[str]:
    return sorted(path.relative_to(home).as_posix() for name in PACKAGES for path in (home / name).rglob("*.py"))


def _blob(data: bytes) -> str:
    """The name that git gives to a file's bytes; integrity rests on the package's SHA-256."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _git(repository: Path, *words: str) -> str:
    """What git says. It takes no lock, starts no program that the checkout names, and is not waited for without end."""
    line = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(repository), *words]
    try:
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=_GIT_PATIENCE_S
        )
    except (subprocess.SubprocessError, FileNotFoundError) as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "the repository is not a git checkout that can be read"
        ) from err
    return done.stdout


def _differs(message: str) -> RefusedError:
    return RefusedError(ErrorCode.RUN_VERSION, message)
