"""Whether a publication was attested before, among whatever else lies there."""

from publisher.provenance import Build, has_provenance, provenance
from shardrel.digest import digest_of
from shardrel.gate.attestations import attach
from shardrel.store.layout import attestation_key
from shardrel.store.memory import MemoryStore
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES
from shardrel.trust.keys import generate

ROOT = digest_of(b"root")
BUILD = Build(snapshot=digest_of(b"s"), parameters={}, sources=[], publication="p", started_on="", finished_on="")


def test_junk_among_the_envelopes_of_a_root_stops_no_publication() -> None:
    store, ours = MemoryStore(), generate("ours")
    attach(store, ROOT, bytes(MAX_ENVELOPE_BYTES + 1))
    attach(store, ROOT, b"no envelope")
    store.create(attestation_key(ROOT, digest_of(b"another name")), provenance(ROOT, "data", BUILD, ours))
    assert not has_provenance(store, ROOT, ours)
    attach(store, ROOT, provenance(ROOT, "data", BUILD, ours))
    assert has_provenance(store, ROOT, ours)
