"""Keys of encrypted releases for a training job. Source: schemas/SPEC.md#encryption"""

import os

from shardrel.kms.key_reference import open_key
from shardrel.trust.key_encryption import Unlocked

VARIABLE = "SHARDREL_ENCRYPTION_KEY"


def environment_keys() -> Unlocked:
    """The keys that the environment names: KEYREFs with white space between them; none where it names none.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.key-file``.
    """
    return Unlocked([open_key(reference) for reference in os.environ.get(VARIABLE, "").split()])
