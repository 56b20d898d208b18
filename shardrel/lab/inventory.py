"""Every file that a bundle retains in its stores, and the seal on their list. Source: schemas/SPEC.md#crash-lab.

The records of facts are equal in two drills of one seed; the stores are not, for their gates have keys and times of
their own. So their list is an envelope beside the facts, which names the audit that it belongs to.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from shardrel.canonical import json
from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, FormatError, NotFoundError
from shardrel.lab.envelopes import unsealed
from shardrel.records.fields import Count, DigestField, Record
from shardrel.records.policy import PublicKey
from shardrel.trust.envelope import seal
from shardrel.trust.signer import Signer

RETAINED_PAYLOAD = "application/vnd.shardrel.crash-lab-retained+json"


class RetainedFile(Record, frozen=True, kw_only=True):
    """A file below the bundle's stores, by its path from there."""

    path: str
    size: Count
    digest: DigestField


class Inventory(Record, tag_field="schema", tag="training.shard.lab-retained.v1", frozen=True, kw_only=True):
    """All of them, by path; ``audit`` is the digest of the bundle's audit record."""

    audit: DigestField
    files: tuple[RetainedFile, ...]


def take(stores: Path) -> tuple[RetainedFile, ...]:
    """What lies there.

    Raises:
        FormatError, NotFoundError: As ``read_regular``.
    """
    digests: dict[tuple[int, int], Digest] = {}
    return tuple(_file(stores, path, digests) for path in sorted(_walk(stores)))


def sealed(stores: Path, audit: bytes, signer: Signer) -> bytes:
    """The envelope."""
    inventory = Inventory(audit=digest_of(audit), files=take(stores))
    return seal(json.encode(inventory), RETAINED_PAYLOAD, [signer])


def opened(envelope: bytes, keys: Iterable[PublicKey]) -> Inventory:
    """What an envelope lists.

    Raises:
        TrustError: ``trust.bad-signature``, ``trust.payload-type``.
        FormatError: ``format.…``.
    """
    return json.decode(unsealed(envelope, RETAINED_PAYLOAD, keys), Inventory)


def differences(said: Iterable[RetainedFile], seen: Iterable[RetainedFile]) -> list[str]:
    """Paths that are absent, more, or of other bytes, in order."""
    return sorted({one.path for one in set(said) ^ set(seen)})


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular file, at most ``limit``; a fifo or a device is not waited for, a link not followed.

    Raises:
        NotFoundError: ``storage.object-absent`` where it cannot be read.
        FormatError: ``format.not-a-record`` where it is something else.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(-1 if limit is None else limit)
    except OSError as err:
        raise NotFoundError(ErrorCode.STORAGE_ABSENT, "a file of the bundle is absent", name=path.name) from err
    raise FormatError(ErrorCode.FORMAT_NOT_A_RECORD, "a file of the bundle is no regular file", name=path.name)


def _walk(stores: Path) -> Iterator[str]:
    for folder, names, files in os.walk(stores):
        links = [name for name in names if (Path(folder) / name).is_symlink()]
        yield from ((Path(folder) / name).relative_to(stores).as_posix() for name in (*files, *links))


def _file(stores: Path, path: str, digests: dict[tuple[int, int], Digest]) -> RetainedFile:
    """Stores have most files in common, as links to the same one."""
    found = os.lstat(stores / path)
    one = (found.st_dev, found.st_ino)
    if one not in digests:
        digests[one] = digest_of(read_regular(stores / path))
    return RetainedFile(path=path, size=found.st_size, digest=digests[one])
