"""Object keys: the only place that builds or parses them. Source: schemas/SPEC.md#store"""

import re

from shardrel.digest import raw_digest
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError
from shardrel.store.port import ObjectKey

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_HEX = r"[0-9a-f]{64}"
_KEY = re.compile(
    rf"objects/sha256/[0-9a-f]{{2}}/{_HEX}|attestations/{_HEX}/{_HEX}"
    rf"|gates/{_NAME}/(state|probe|operations/{_NAME})|runs/{_NAME}/(record|commits/(0|[1-9][0-9]{{0,15}}))"
    rf"|keys/{_NAME}/{_NAME}/{_NAME}|probe/{_NAME}/{_NAME}"
)
_PREFIX = re.compile(rf"({_NAME}/)*({_NAME})?")


def check_name(name: str, what: str) -> str:
    """Names become parts of keys.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    if not re.fullmatch(_NAME, name):
        article = "an" if what.startswith(("a", "o")) else "a"
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            f"{article} {what} has 1 to 128 letters, digits, dots, dashes or underscores and begins with a letter or digit",
        )
    return name


def check_key(key: str) -> ObjectKey:
    """Every adapter calls this before it makes a path or a request of a key.

    Raises:
        IntegrityError: ``storage.bad-key``.
    """
    if not _KEY.fullmatch(key):
        raise IntegrityError(ErrorCode.STORAGE_KEY, "the object key does not follow the layout")
    return ObjectKey(key)


def is_key(text: str) -> bool:
    """Whether a name found in a store is a key of the layout."""
    return _KEY.fullmatch(text) is not None


def check_prefix(prefix: str) -> str:
    """A prefix of keys: plain names between single slashes, so that it can't lead out of the store.

    Raises:
        IntegrityError: ``storage.bad-key``.
    """
    if not _PREFIX.fullmatch(prefix):
        raise IntegrityError(ErrorCode.STORAGE_KEY, "the prefix does not follow the layout of object keys")
    return prefix


def object_key(digest: str) -> ObjectKey:
    """Where an object lies by its digest."""
    text = raw_digest(digest).hex()
    return ObjectKey(f"objects/sha256/{text[:2]}/{text}")


def object_digest(key: str) -> str | None:
    """The digest of the object under a key; None for a key that is none of an object.

    The inverse of ``object_key``: whoever compares names compares digests.
    """
    found = re.fullmatch(rf"objects/sha256/([0-9a-f]{{2}})/({_HEX})", key)
    return None if found is None or not found[2].startswith(found[1]) else f"sha256:{found[2]}"


def gate_dataset(key: str) -> str | None:
    """The dataset whose gate state lies under a key."""
    found = re.fullmatch(rf"gates/({_NAME})/state", key)
    return None if found is None else found[1]


def attestation_prefix(root: str) -> str:
    """Prefix of all envelopes about a root."""
    return f"attestations/{raw_digest(root).hex()}/"


def attestation_key(root: str, envelope: str) -> ObjectKey:
    """Where an envelope about a root lies."""
    return ObjectKey(attestation_prefix(root) + raw_digest(envelope).hex())


def gate_key(dataset: str) -> ObjectKey:
    """The one mutable object of a dataset."""
    return ObjectKey(f"gates/{check_name(dataset, 'dataset')}/state")


def probe_key(dataset: str) -> ObjectKey:
    """The verdict that ``init`` kept."""
    return ObjectKey(f"gates/{check_name(dataset, 'dataset')}/probe")


def operation_key(dataset: str, operation: str) -> ObjectKey:
    """Intent of one operation."""
    return ObjectKey(operation_prefix(dataset) + check_name(operation, "operation id"))


def operation_prefix(dataset: str) -> str:
    """Prefix of the intents of all operations of a gate."""
    return f"gates/{check_name(dataset, 'dataset')}/operations/"


def wrapped_key_key(dataset: str, publication: str, name: str) -> ObjectKey:
    """The wrapped data key of one object of a publication."""
    return ObjectKey(
        f"keys/{check_name(dataset, 'dataset')}/{check_name(publication, 'publication')}/{check_name(name, 'shard id')}"
    )


def run_key(run: str) -> ObjectKey:
    """Record of a run."""
    return ObjectKey(f"runs/{check_name(run, 'run id')}/record")


def commit_key(run: str, generation: int) -> ObjectKey:
    """Commit record of one checkpoint generation."""
    return ObjectKey(f"runs/{check_name(run, 'run id')}/commits/{generation}")
