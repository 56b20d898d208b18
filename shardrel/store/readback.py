"""What a conditional write came to, judged by what is there afterwards. Source: schemas/SPEC.md#store

A writer stamps a fresh write id on its object, and a swap also the token that it replaces. When the
answer is anything but success, one of these rules looks at what the key holds. Pure.
"""

from dataclasses import dataclass

from shardrel.store.port import (
    AlreadyPresent,
    Conflict,
    CreateOutcome,
    Lost,
    SwapOutcome,
    Token,
    Unknown,
    Written,
)

ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the key holds.

    Attributes:
        write_id: The stamp of its writer; None when somebody else's program wrote it.
        replaced: The token that its swap replaced, or ``absent``; None where nothing is stamped.
        same_bytes: Whether the bytes equal those of this write.
    """

    version: str
    token: Token
    write_id: str | None
    replaced: str | None
    same_bytes: bool


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The key could not be read back."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Nothing is settled: send the same write, with the same write id, once more."""


def after_create(seen: Seen | Unreadable | None, own: str) -> CreateOutcome | AskAgain:
    """Judge a create that was not answered with success.

    A create that landed keeps its key until retention deletes it, so whatever lies there decides. An
    absent key decides nothing: the request may still be on its way, and sending it again is harmless.
    """
    match seen:
        case None:
            return AskAgain()
        case Unreadable():
            return Unknown("the write was not answered and the key could not be read back")
        case Seen(write_id=write_id, version=version, token=token) if write_id == own:
            return Written(version, token)
        case Seen(same_bytes=True, version=version):
            return AlreadyPresent(version)
        case _:
            return Conflict()


def after_swap(
    seen: Seen | Unreadable | None, own: str, expected: Token | None, *, doubt: bool
) -> SwapOutcome | AskAgain:
    """Judge a swap that was not answered with success.

    Args:
        seen: What the key holds now.
        own: This write's id.
        expected: The token that the swap was to replace; None for absent.
        doubt: Whether any attempt went unanswered, so that it may have landed or may land yet.
    """
    match seen:
        case Unreadable():
            return Unknown("the swap was not answered and the key could not be read back")
        case None:
            if not doubt:
                return Lost()
            return AskAgain() if expected is None else Unknown("the key was deleted meanwhile")
        case Seen(write_id=write_id, version=version, token=token) if write_id == own:
            return Written(version, token)
        case Seen(token=token) if token == expected:
            return AskAgain()
        case Seen(replaced=replaced) if not doubt or replaced == (expected or ABSENT):
            # Whoever wrote this replaced the very bytes that this swap was to replace.
            return Lost()
        case _:
            return Unknown("the key was swapped more than once meanwhile; this swap may have been one of them")
