"""Encrypted Parquet objects, opened as far as they have to be looked at before pyarrow may decode them.

Footer and page headers are held against all bounds, as those of plain ones.
Source: schemas/SPEC.md#encryption, https://github.com/apache/parquet-format (Encryption.md)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.parquet.encryption as parquet
from msgspec.structs import replace

from shardrel.errors import ErrorCode, IntegrityError, RefusedError
from shardrel.records.release import Release, Shard
from shardrel.records.snapshot import MemberIndex, Part, Snapshot
from shardrel.trust import release_keys
from shardrel.trust.aead import NONCE_BYTES, TAG_BYTES, Opener, TagError
from shardrel.trust.key_encryption import DataKey, Unlocked
from shardrel.trust.sealed_parts import PartsKey
from verifier import pages
from verifier.structure import FlawError

R = TypeVar("R")

# FileCryptoMetaData: AES_GCM_V1, eight bytes that no other file has, a prefix to be supplied; no key metadata.
_BEFORE, _AFTER, _UNIQUE = b"\x1c\x1c\x28\x08", b"\x11\x00\x00\x00", 8
_FOOTER, _DATA, _DICTIONARY, _DATA_HEADER, _DICTIONARY_HEADER = b"\x00", b"\x02", b"\x03", b"\x04", b"\x05"
_LENGTH = 4
_MAX_ORDINAL = (1 << 15) - 1
_LEAST = _LENGTH + NONCE_BYTES + TAG_BYTES


class Lock:
    """What one object is encrypted with.

    Args:
        data_key: Its key.
        aad_prefix: What it is bound to.
    """

    def __init__(self, data_key: DataKey, aad_prefix: bytes) -> None:
        self._data_key, self._prefix = data_key, aad_prefix

    def footer(self, data: bytes, footer_start: int) -> "OpenedFooter":
        """Open the footer of a file whose magic and length were checked.

        Raises:
            FlawError: ``encryption.aad`` when the tag does not verify or the prefix is stored; ``parquet.footer``.
        """
        end = len(data) - 8
        head = data[footer_start : footer_start + len(_BEFORE) + _UNIQUE + len(_AFTER)]
        if not head.startswith(_BEFORE) or not head.endswith(_AFTER) or len(head) != len(_BEFORE) + _UNIQUE + 4:
            raise FlawError(ErrorCode.ENCRYPTION_AAD, "the file is encrypted in another way, or stores its own binding")
        modules = _Modules(Opener(self._data_key.key), self._prefix + head[len(_BEFORE) : len(_BEFORE) + _UNIQUE])
        try:
            plain, after = modules.read(memoryview(data), footer_start + len(head), end, _FOOTER)
        except pages.BrokenPagesError as err:
            raise FlawError(ErrorCode.PARQUET_FOOTER, "the footer does not parse") from err
        if after != end:
            raise FlawError(ErrorCode.PARQUET_FOOTER, "there are bytes behind the footer")
        return OpenedFooter(plain=plain, modules=modules)

    @property
    def properties(self) -> Any:
        """``FileDecryptionProperties``; a plain file is refused with them."""
        return parquet.create_decryption_properties(
            self._data_key.key, aad_prefix=self._prefix, check_footer_integrity=True, allow_plaintext_files=False
        )


class _Modules:
    """Opens the modules of one file."""

    def __init__(self, opener: Opener, file_aad: bytes) -> None:
        self._opener, self._file_aad = opener, file_aad

    def read(self, data: memoryview, at: int, end: int, place: bytes) -> tuple[bytes, int]:
        """The module at ``at``, and where it ends."""
        after = _end(data, at, end)
        try:
            return self._opener.open(data[at + _LENGTH : after], self._file_aad + place), after
        except TagError as err:
            raise FlawError(
                ErrorCode.ENCRYPTION_AAD, "a module was encrypted for another place, or was changed"
            ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFooter:
    """The footer's Thrift structure, and how to read the page headers that it leads to."""

    plain: bytes
    modules: _Modules

    def headers(self, group: int, column: int, *, dictionary: bool) -> pages.HeaderReader:
        """Reads the page headers of one column chunk in their order, and verifies the pages' tags.

        Args:
            group: Ordinal of the row group.
            column: Ordinal of the column.
            dictionary: Whether the footer names a dictionary page, which is then the first.
        """
        ordinals = _ordinal(group) + _ordinal(column)

        def read(data: memoryview, at: int, end: int, before: int) -> tuple[dict[int, Any], int]:
            if dictionary and before == 0:
                kinds, place = (_DICTIONARY_HEADER, _DICTIONARY), ordinals
            else:
                kinds, place = (_DATA_HEADER, _DATA), ordinals + _ordinal(before - dictionary)
            plain, after = self.modules.read(data, at, end, kinds[0] + place)
            header = pages.read_header(plain)
            if header.get(3) != _end(data, after, end) - after:
                raise pages.BrokenPagesError("a page has another size than its header says")
            # Its tag alone: what it holds is decoded by pyarrow, once every bound is known to be kept.
            self.modules.read(data, after, end, kinds[1] + place)
            return header, after

        return read


def _ordinal(number: int) -> bytes:
    if number > _MAX_ORDINAL:
        raise FlawError(
            ErrorCode.PARQUET_STRUCTURE, "there are more row groups, columns or pages than can be encrypted"
        )
    return number.to_bytes(2, "little")


def _end(data: memoryview, at: int, end: int) -> int:
    if at + _LEAST > end:
        raise pages.BrokenPagesError("a module is cut off")
    length = int.from_bytes(data[at : at + _LENGTH], "little")
    if length < _LEAST - _LENGTH or at + _LENGTH + length > end:
        raise pages.BrokenPagesError("a module reaches beyond its place")
    return at + _LENGTH + length


def shard_lock(release: Release, shard: Shard, unlocked: Unlocked) -> Lock | None:
    """What a shard is encrypted with; None where it is plain.

    Raises:
        FlawError: ``encryption.…``
        UnavailableError: The KMS does not answer.
    """
    found = _flawed(lambda: release_keys.shard_lock(release, shard, unlocked))
    return None if found is None else Lock(found.data_key, found.aad_prefix)


def part_lock(parts_key: PartsKey | None, part: Part) -> Lock | None:
    """What a part with an open border is encrypted with; None without a key."""
    if parts_key is None:
        return None
    return Lock(parts_key.data_key, parts_key.aad_prefix(part.last_sample_id or ""))


def open_index(index: MemberIndex, release: Release, unlocked: Unlocked) -> tuple[MemberIndex, PartsKey | None]:
    """The member index with borders that can be read, and the key of its parts.

    Raises:
        FlawError: ``encryption.…``
        UnavailableError: The KMS does not answer.
    """
    key = _flawed(lambda: release_keys.index_key(release, unlocked))
    return (index, None) if key is None else (replace(index, parts=_flawed(lambda: key.opened(index.parts))), key)


def open_snapshot(snapshot: Snapshot, unlocked: Unlocked) -> tuple[Snapshot, PartsKey | None]:
    """The snapshot with borders that can be read, and the key of its parts. Raises as ``open_index``."""
    key = _flawed(lambda: release_keys.snapshot_key(snapshot, unlocked))
    return (
        (snapshot, None) if key is None else (replace(snapshot, parts=_flawed(lambda: key.opened(snapshot.parts))), key)
    )


def _flawed(work: Callable[[], R]) -> R:
    try:
        return work()
    except (IntegrityError, RefusedError) as err:
        raise FlawError(err.code, err.message) from err
