"""Checkpoints of a log, each with the proof that it extends the one before it: a file that only ever grows.

One step is what a witness is sent: the old size, a consistency proof, an empty line, and the signed checkpoint.
Source: schemas/SPEC.md#anchor, https://c2sp.org/tlog-checkpoint, https://c2sp.org/tlog-witness
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.trust.note import Note, bad_note, read_base64, read_note, sign_note
from shardrel.trust.signer import Signer
from shardrel.trust.tree import EMPTY, Tree, extends

_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_HASH_BYTES = 32
_MOST_PROOF_LINES = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The head of a log: so many entries, and the root hash over them."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A checkpoint, and the proof that it extends the one of ``old`` entries."""

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


def make_step(tree: Tree, origin: str, old: int, signers: Sequence[Signer]) -> str:
    """The step from ``old`` entries to all of a tree."""
    head = Checkpoint(origin=origin, size=tree.size, root=tree.root(tree.size))
    proof = "".join(f"{base64.b64encode(node).decode()}\n" for node in tree.consistency(old, tree.size))
    return f"old {old}\n{proof}\n{sign_note(head.text, origin, signers)}"


def read_steps(text: str) -> list[Step]:
    """All steps of a file; no signature is checked and no proof.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if not text.startswith("old "):
        raise bad_note()
    # No line of a note of ours begins so: an origin has no space, a signature line begins with a dash.
    return [_read_step("old " + part) for part in re.split(r"^old ", text, flags=re.MULTILINE)[1:]]


def first_break(steps: Sequence[Step]) -> int | None:
    """Size of the first checkpoint that does not extend the one before it; None where all do."""
    before = (0, EMPTY)
    for step in steps:
        now = (step.checkpoint.size, step.checkpoint.root)
        if step.old != before[0] or now[0] < before[0] or not extends(before, now, step.proof):
            return now[0]
        before = now
    return None


def _read_step(text: str) -> Step:
    head, blank, note = text.partition("\n\n")
    first, *proof = head.split("\n")
    if not blank or len(proof) > _MOST_PROOF_LINES:
        raise bad_note()
    parsed = read_note(note)
    return Step(
        old=_size(first.removeprefix("old ")),
        proof=tuple(_hash(line) for line in proof),
        note=parsed,
        checkpoint=_checkpoint(parsed.text),
    )


def _checkpoint(text: str) -> Checkpoint:
    """The head that a note is about; further lines are what nobody can audit, and refused."""
    lines = text.split("\n")
    if len(lines) != 4 or lines[3] or not lines[0]:
        raise bad_note()
    return Checkpoint(origin=lines[0], size=_size(lines[1]), root=_hash(lines[2]))


def _size(text: str) -> int:
    if not _SIZE.fullmatch(text):
        raise bad_note()
    return int(text)


def _hash(text: str) -> bytes:
    raw = read_base64(text)
    if len(raw) != _HASH_BYTES:
        raise bad_note()
    return raw
