"""The bundle of a drill: installed file by file, the audit last. Source: schemas/SPEC.md#crash-lab."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError
from shardrel.lab import inventory
from shardrel.lab.evidence import EVIDENCE_PAYLOAD, Audit, Evaluation, Recovery, Stated
from shardrel.records.fields import Record
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES, seal
from shardrel.trust.signer import Signer

REFERENCE, RECOVERED, RECOVERY = "reference-evaluation.json", "recovered-evaluation.json", "recovery-evidence.json"
SIGNATURE, RETAINED = "audit.dsse.json", "retained.dsse.json"
AUDIT, STORES = "audit.json", "stores"
NAMES = (REFERENCE, RECOVERED, RECOVERY, SIGNATURE, RETAINED, AUDIT, STORES)

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The records of a bundle as they were read, each in canonical form; ``signature`` is the audit's envelope."""

    folder: Path
    audit: Audit
    audit_bytes: bytes
    signature: bytes
    reference: Evaluation
    recovered: Evaluation
    recovery: Recovery


def state(name: str, data: bytes) -> Stated:
    """Name, size and digest of a file."""
    return Stated(name=name, size=len(data), digest=digest_of(data))


def encode(reference: Evaluation, recovered: Evaluation, recovery: Recovery) -> list[tuple[str, bytes]]:
    """The three files that the audit is about."""
    records = ((REFERENCE, reference), (RECOVERED, recovered), (RECOVERY, recovery))
    return [(name, json.encode(record)) for name, record in records]


def install(folder: Path, files: Sequence[tuple[str, bytes]], audit: Audit, signer: Signer) -> None:
    """Write a bundle; it is one once the audit is there.

    Effects: files, each durable before the next; none is replaced.
    """
    data = json.encode(audit)
    signature = (SIGNATURE, seal(data, EVIDENCE_PAYLOAD, [signer]))
    retained = (RETAINED, inventory.sealed(folder / STORES, data, signer))
    for name, content in (*files, signature, retained, (AUDIT, data)):
        _create(folder, name, content)


def read(folder: Path) -> Bundle:
    """Read the records of a bundle.

    Raises:
        NotFoundError: ``storage.object-absent`` where a file is absent.
        FormatError: ``format.…`` where one is no record, or not in canonical form.
    """
    audit = _read(folder, AUDIT)
    return Bundle(
        folder=folder,
        audit=json.decode(audit, Audit),
        audit_bytes=audit,
        signature=_read(folder, SIGNATURE),
        reference=json.decode(_read(folder, REFERENCE), Evaluation),
        recovered=json.decode(_read(folder, RECOVERED), Evaluation),
        recovery=json.decode(_read(folder, RECOVERY), Recovery),
    )


def read_list(folder: Path) -> bytes:
    """The envelope of the list of what the stores hold.

    Raises:
        NotFoundError: ``storage.object-absent``.
    """
    return _read(folder, RETAINED)


def without_stores(folder: Path) -> bool:
    """Whether the stores, and the list of what they hold, were left out, as of evidence that is shown and not kept."""
    return not any(os.path.lexists(folder / name) for name in (RETAINED, STORES))


def digests(folder: Path) -> tuple[Stated, ...]:
    """The three files that the audit is about, as they lie there."""
    return tuple(state(name, _read(folder, name)) for name in (REFERENCE, RECOVERED, RECOVERY))


def strays(folder: Path) -> list[str]:
    """What lies in the bundle and does not belong there."""
    return sorted(path.name for path in folder.iterdir() if path.name not in NAMES or path.is_symlink())


def _read(folder: Path, name: str) -> bytes:
    data = inventory.read_regular(folder / name, MAX_ENVELOPE_BYTES + 1)
    if len(data) > MAX_ENVELOPE_BYTES:
        raise FormatError(ErrorCode.FORMAT_TOO_LARGE, "a file of the bundle is too large", name=name)
    return data


def _create(folder: Path, name: str, data: bytes) -> None:
    draft = folder / f".{name}"
    with draft.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.link(draft, folder / name)
    draft.unlink()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
