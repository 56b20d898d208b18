"""Drills with encrypted releases: keys and ciphertext in places that they were not made for."""

from dataclasses import replace as with_fields

from msgspec.structs import replace

from shardrel.drills.drill import Codes, Drill, refusal
from shardrel.drills.forge import parquet_bytes
from shardrel.drills.scratch import RECORDS, Scratch, records_table
from shardrel.errors import ErrorCode
from shardrel.trust.aead import fresh_key
from shardrel.trust.key_files import FileKey


def _a_key() -> FileKey:
    """A key-encryption key for this drill alone."""
    return FileKey(version="1", key=fresh_key())


def _exchanged(scratch: Scratch) -> Codes:
    """The root names each of two shards' wrapped keys in the other's entry."""
    scene, root = scratch.released("exchanged-wrapped-keys", encrypt=_a_key())
    forgery = scene.forgery(root)
    first, second = forgery.release.shards
    forgery.declare(0, replace(first, key=second.key))
    forgery.declare(1, replace(second, key=first.key))
    return scene.judged(scene.seal(forgery))


def _plain(scratch: Scratch) -> Codes:
    """A plain file stands where an encrypted shard was."""
    scene, root = scratch.released("plaintext-shard", encrypt=_a_key())
    forgery = scene.forgery(root)
    forgery.put_shard(0, parquet_bytes(records_table(RECORDS)))
    return scene.judged(scene.seal(forgery))


def _elsewhere(scratch: Scratch) -> Codes:
    """A shard's ciphertext stands in another's place, whose key is of no use to it."""
    scene, root = scratch.released("misplaced-ciphertext", encrypt=_a_key())
    forgery = scene.forgery(root)
    first, second = forgery.release.shards
    for number, entry, other in ((0, first, second), (1, second, first)):
        moved = replace(entry, digest=other.digest, size=other.size, object_version=other.object_version)
        forgery.declare(number, moved)
    return scene.judged(scene.seal(forgery))


def _another_key(scratch: Scratch) -> Codes:
    """A verifier is given the key of another release."""
    scene, root = scratch.released("wrong-key", encrypt=_a_key())
    stranger = with_fields(scene, encrypt=_a_key())
    return [refusal(lambda: stranger.verify(root))]


DRILLS: tuple[Drill, ...] = (
    Drill(
        name="exchanged-wrapped-keys",
        about="A shard is to be opened with the key of another one.",
        fault="The root names each of two encrypted shards' wrapped keys in the other's entry; signed anew.",
        attack="key substitution",
        expected=ErrorCode.ENCRYPTION_WRAPPED_KEY,
        section="encryption",
        conduct=_exchanged,
    ),
    Drill(
        name="plaintext-shard",
        about="A plain file passes for an encrypted shard.",
        fault="A shard of an encrypted release replaced by a plain file; signed anew.",
        attack="downgrade",
        expected=ErrorCode.ENCRYPTION_PLAINTEXT,
        section="encryption",
        conduct=_plain,
    ),
    Drill(
        name="misplaced-ciphertext",
        about="Ciphertext that was made for one place stands in another.",
        fault="The root names each of two encrypted shards' objects in the other's entry; signed anew.",
        attack="ciphertext transplant",
        expected=ErrorCode.ENCRYPTION_AAD,
        section="encryption",
        conduct=_elsewhere,
    ),
    Drill(
        name="wrong-key",
        about="A verifier has another key than the release was encrypted with.",
        fault="An encrypted release is verified with a fresh key; nothing may be signed.",
        attack="wrong key",
        expected=ErrorCode.ENCRYPTION_KEY,
        section="encryption",
        conduct=_another_key,
    ),
)
