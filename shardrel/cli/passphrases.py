"""Passphrases of private keys: from a file, from the environment, or from whoever sits at the terminal."""

import os
import sys
from functools import cache
from getpass import getpass
from pathlib import Path

from shardrel.errors import ErrorCode, InvalidInputError

FILE_VARIABLE = "SHARDREL_PASSPHRASE_FILE"
VARIABLE = "SHARDREL_PASSPHRASE"


def ask(name: str) -> bytes | None:
    """The passphrase of a key that has one; None where nobody can say.

    Raises:
        InvalidInputError: ``input.key`` when the named file is not there.
        TrustError: ``trust.key-file`` when others may read it.
    """
    return _from_environment() or _from_terminal(f"Passphrase of the key {name}: ")


def choose() -> bytes:
    """A passphrase for new keys, typed twice where it is typed.

    Raises:
        InvalidInputError: ``input.key`` when there is none, or the two differ.
        TrustError: ``trust.key-file``.
    """
    given = _from_environment()
    if given is not None:
        return given
    typed = _from_terminal("Passphrase of the new keys: ")
    if not typed:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, f"no passphrase was given: set {FILE_VARIABLE}, or run this at a terminal"
        )
    if _from_terminal.__wrapped__("The same again: ") != typed:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "the two passphrases differ")
    return typed


def _from_environment() -> bytes | None:
    path = os.environ.get(FILE_VARIABLE)
    if path:
        from shardrel.trust.private_files import read_private

        return read_private(Path(path)).removesuffix(b"\n").removesuffix(b"\r")
    given = os.environ.get(VARIABLE)
    return given.encode("utf-8", "surrogateescape") if given else None


@cache
def _from_terminal(prompt: str) -> bytes | None:
    """Typed once a process: a verb may need the same key more than once."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return getpass(prompt, stream=sys.stderr).encode("utf-8", "surrogateescape") or None
