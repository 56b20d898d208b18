"""Parts of a member index or snapshot that are encrypted: their borders name sample ids, so these are sealed too.

Source: schemas/SPEC.md#encryption
"""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from shardrel.errors import ErrorCode, IntegrityError
from shardrel.records.snapshot import Part
from shardrel.trust import aead
from shardrel.trust.key_encryption import DataKey, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsKey:
    """The one data key of all parts, and what they are bound to. Its repr shows no key."""

    data_key: DataKey
    place: Place

    def sealed_border(self, last: str) -> str:
        """What ``lastSampleId`` holds of an encrypted part: nonce, ciphertext and tag in hexadecimal."""
        return aead.encrypt(self.data_key.key, last.encode(), self.place.aad_prefix()).hex()

    def aad_prefix(self, last: str) -> bytes:
        """What every module of the part with this last sample id is bound to."""
        return self.place.aad_prefix(last)

    def opened(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """The parts with the sample ids that their borders hide, in memory.

        Raises:
            IntegrityError: ``encryption.aad``.
        """
        return tuple(replace(part, last_sample_id=self._border(part)) for part in parts)

    def _border(self, part: Part) -> str:
        try:
            sealed = bytes.fromhex(part.last_sample_id or "")
            return aead.decrypt(self.data_key.key, sealed, self.place.aad_prefix()).decode()
        except ValueError:  # what was sealed is not quoted, whatever is wrong with it
            raise IntegrityError(
                ErrorCode.ENCRYPTION_AAD, "the border of a part does not open", shard=self.place.name
            ) from None
