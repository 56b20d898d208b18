"""A key-encryption key that never leaves AWS KMS: data keys are wrapped and unwrapped there, by EncryptionContext.

The only module that asks KMS about data keys. Source: schemas/SPEC.md#encryption
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, ShardrelError, UnavailableError
from shardrel.trust.key_encryption import fingerprint_of

_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]{1,128}")
_CONFIG = Config(connect_timeout=10, read_timeout=30, retries={"total_max_attempts": 4, "mode": "standard"})
# The service's words for "not made by this key, for this context".
_REFUSED = frozenset(("InvalidCiphertextException", "IncorrectKeyException"))
_DENIED = frozenset(("AccessDeniedException", "DisabledException", "KMSInvalidStateException"))


_ASKING: ContextVar[bool] = ContextVar("_ASKING", default=False)


def _tells_no_key(record: logging.LogRecord) -> bool:
    return not _ASKING.get()


# At level DEBUG botocore logs what it sends and what it receives, data keys included.
for _name in ("botocore.endpoint", "botocore.parsers"):
    logging.getLogger(_name).addFilter(_tells_no_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsKey:
    """A symmetric KMS key by its key ARN."""

    arn: str
    version: str | None
    _clients: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def client(self) -> Any:
        """The client of this process: a forked one would share its connections with its parent."""
        process = os.getpid()
        if process not in self._clients:
            region = self.arn.split(":")[3]
            self._clients[process] = boto3.session.Session().client("kms", region_name=region, config=_CONFIG)
        return self._clients[process]

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process asks the KMS by a client of its own."""
        return kms_key, (self.arn, self.version)

    @property
    def fingerprint(self) -> str:
        """Digest that names the key."""
        return fingerprint_of("awskms", self.arn.encode())

    def wrap(self, data_key: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key, encrypted and bound.

        Raises:
            UnavailableError: ``store.unavailable``, ``store.access-denied``.

        Effects: one Encrypt.
        """
        ask = {"KeyId": self.arn, "Plaintext": data_key, "EncryptionContext": dict(binding)}
        return bytes(self._asked(lambda: self.client.encrypt(**ask), binding)["CiphertextBlob"])

    def unwrap(self, wrapped: bytes, binding: Mapping[str, str]) -> bytes:
        """The data key.

        Raises:
            IntegrityError: ``encryption.wrapped-key``.
            UnavailableError: ``store.unavailable``, ``store.access-denied``.

        Effects: one Decrypt.
        """
        ask = {"KeyId": self.arn, "CiphertextBlob": wrapped, "EncryptionContext": dict(binding)}
        return bytes(self._asked(lambda: self.client.decrypt(**ask), binding)["Plaintext"])

    def _asked(self, ask: Callable[[], Any], binding: Mapping[str, str]) -> Any:
        asking = _ASKING.set(True)
        try:
            return ask()
        except ClientError as err:
            # Without the cause: what botocore quotes of a request is not ours to check.
            raise self._translated(err, binding) from None
        except BotoCoreError as err:
            raise UnavailableError(
                ErrorCode.STORE_UNAVAILABLE, "the KMS does not answer", reason=type(err).__name__
            ) from None
        finally:
            _ASKING.reset(asking)

    def _translated(self, err: ClientError, binding: Mapping[str, str]) -> ShardrelError:
        reason = str(err.response.get("Error", {}).get("Code", "unknown"))
        if reason in _REFUSED:
            return IntegrityError(
                ErrorCode.ENCRYPTION_WRAPPED_KEY,
                "the wrapped key was made for something else, or was changed",
                shard=binding["shard"],
            )
        if reason == "NotFoundException":
            return InvalidInputError(ErrorCode.INPUT_KEY, "the KMS has no such key", key=self.arn)
        code = ErrorCode.STORE_DENIED if reason in _DENIED else ErrorCode.STORE_UNAVAILABLE
        return UnavailableError(code, "the KMS refuses", reason=reason, key=self.arn)


def kms_key(arn: str, version: str | None) -> KmsKey:
    """The key of an ARN. Credentials and a KMS endpoint come from the usual AWS configuration.

    Raises:
        InvalidInputError: ``input.key`` when it is no ARN of a key; an alias may come to mean another one.
    """
    if not _ARN.fullmatch(arn):
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "a KMS key is named by its ARN: arn:aws:kms:REGION:ACCOUNT:key/ID (no alias)"
        )
    return KmsKey(arn=arn, version=version)
