"""Records that a person named by digest, where it is easy to name the wrong one."""

from typing import TypeVar

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, InvalidInputError
from shardrel.records.fields import Record
from shardrel.records.kinds import KINDS, kind_of
from shardrel.store.objects import get_by_digest
from shardrel.store.port import Store

R = TypeVar("R", bound=Record)


def get_named(store: Store, digest: str, kind: type[R]) -> R:
    """Read the record with this digest, checked.

    Raises:
        InvalidInputError: ``input.invalid`` where it is a sound record of another kind.
        NotFoundError, IntegrityError: As ``get_by_digest``.
        FormatError: What decoding raises of anything else.
    """
    data = get_by_digest(store, digest)
    try:
        return json.decode(data, kind)
    except FormatError as err:
        found = kind_of(data)
        if found is None or found is kind:
            raise
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            f"this is the digest of {KINDS[found]}, where that of {KINDS[kind]} is asked for",
            digest=digest,
            kind=found.__struct_config__.tag,
        ) from err
