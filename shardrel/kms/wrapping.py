"""A key-encryption key that never leaves AWS KMS: data keys are wrapped and unwrapped there, by EncryptionContext.

Source: schemas/SPEC.md#encryption
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.kms.answers import WRAPPING, Refusal, as_error
from shardrel.kms.service import KmsService, KmsSettings
from shardrel.trust.key_encryption import fingerprint_of

_ARN = re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]{1,128}")
# The service takes no longer ciphertext, so it made none.
_MOST_WRAPPED = 6144


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsKey:
    """A symmetric KMS key by its key ARN."""

    arn: str
    version: str | None
    service: KmsService

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process asks the KMS by a client of its own."""
        return _again, (self.arn, self.version, self.service.settings)

    @property
    def fingerprint(self) -> str:
        """Digest that names the key."""
        return fingerprint_of("awskms", self.arn.encode())

    def wrap(self, data_key: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key, encrypted and bound.

        Raises:
            InvalidInputError: ``input.key``.
            TrustError: ``kms.key``.
            UnavailableError: ``kms.unavailable``, ``kms.throttled``, ``kms.access-denied``.

        Effects: one Encrypt, or a few where KMS does not answer.
        """
        return self._asked("encrypt", "CiphertextBlob", binding, Plaintext=data_key)

    def unwrap(self, wrapped: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key.

        Raises:
            IntegrityError: ``encryption.wrapped-key``.
            InvalidInputError, TrustError, UnavailableError: As ``wrap``.

        Effects: one Decrypt, or a few where KMS does not answer.
        """
        if not 1 <= len(wrapped) <= _MOST_WRAPPED:
            raise _not_its_own(binding)
        return self._asked("decrypt", "Plaintext", binding, CiphertextBlob=wrapped)

    def _asked(self, operation: str, wanted: str, binding: Mapping[str, str], **params: bytes) -> bytes:
        answer = self.service.ask(operation, wanted, KeyId=self.arn, EncryptionContext=dict(binding), **params)
        if isinstance(answer, Refusal):
            raise _not_its_own(binding) if answer.other_ciphertext else as_error(answer, self.arn, WRAPPING)
        found: bytes = answer[wanted]
        return found


def kms_key(arn: str, version: str | None, *, settings: KmsSettings | None = None) -> KmsKey:
    """The key of an ARN. Credentials and a KMS endpoint come from the usual AWS configuration.

    Raises:
        InvalidInputError: ``input.key`` when it is no ARN of a key; an alias may come to mean another one.
    """
    found = _ARN.fullmatch(arn)
    if found is None:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "a KMS key is named by its ARN: arn:aws:kms:REGION:ACCOUNT:key/ID (no alias)"
        )
    return KmsKey(arn=arn, version=version, service=KmsService(region=found[1], settings=settings or KmsSettings()))


def _again(arn: str, version: str | None, settings: KmsSettings) -> KmsKey:
    return kms_key(arn, version, settings=settings)


def _not_its_own(binding: Mapping[str, str]) -> IntegrityError:
    return IntegrityError(
        ErrorCode.ENCRYPTION_WRAPPED_KEY,
        "the wrapped key was made for something else, or was changed",
        shard=binding["shard"],
    )
