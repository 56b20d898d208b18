"""Envelopes about a root: attached beside each other, listed as a hint. Source: schemas/SPEC.md#attestations."""

from shardrel.digest import Digest, digest_of
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.store.layout import attestation_key, attestation_prefix
from shardrel.store.objects import settle_create
from shardrel.store.port import Store
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES


def attach(store: Store, root: str, envelope: bytes) -> Digest:
    """Store an envelope about a root; again is harmless.

    Returns:
        Digest of the envelope.

    Raises:
        IntegrityError: ``storage.digest-mismatch``.
        OutcomeUnknownError: ``outcome-unknown.create``.

    Effects: one create.
    """
    digest = digest_of(envelope)
    key = attestation_key(root, digest)
    settle_create(store.create(key, envelope), key)
    return digest


def list_envelopes(store: Store, root: str) -> list[Digest]:
    """Digests of the envelopes that a listing shows; one that it leaves out is only not found."""
    return sorted(Digest("sha256:" + key.rpartition("/")[2]) for key in store.list(attestation_prefix(root)))


def read_envelope(store: Store, root: str, digest: str) -> bytes | None:
    """The envelope's bytes; None where it is absent, is not what its name says, or is too large to be one.

    Anybody may put something there, so nothing that lies there may stop a reader.
    """
    try:
        stored = store.read(attestation_key(root, digest), max_bytes=MAX_ENVELOPE_BYTES)
    except IntegrityError as err:
        if err.code != ErrorCode.STORAGE_TOO_LARGE:
            raise
        return None
    if stored is None or digest_of(stored.data) != digest:
        return None
    return stored.data
