"""KEYREF: how a person names a key-encryption key. Source: schemas/SPEC.md#encryption"""

import re
from pathlib import Path

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.trust.key_encryption import KeyEncryption
from shardrel.trust.key_files import load_key_file

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def open_key(reference: str) -> KeyEncryption:
    """The key that ``file:PATH`` or ``awskms:ARN`` (with ``#VERSION``, where versions are counted) names.

    Raises:
        InvalidInputError: ``input.key``. The reference is not quoted: somebody may have pasted a key.
        TrustError: ``trust.key-file``.
    """
    scheme, _, rest = reference.partition(":")
    if scheme == "file" and rest:
        return load_key_file(Path(rest))
    if scheme == "awskms" and rest:
        from shardrel.kms.wrapping import kms_key

        arn, mark, version = rest.partition("#")
        if mark and not _VERSION.fullmatch(version):
            raise InvalidInputError(ErrorCode.INPUT_KEY, "what stands behind # is no version of a key")
        return kms_key(arn, version if mark else None)
    raise InvalidInputError(ErrorCode.INPUT_KEY, "a key-encryption key is named file:PATH or awskms:ARN")
