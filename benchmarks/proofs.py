"""What a proof costs: ``prove`` and ``check-proof`` on memberships of half a million and of 5 million.

The release is real in all that a proof looks at (manifest, member index, snapshot, ordered root) and has no shards:
those are read only for members that nobody declared. The other side hashes as many rows as there are members, each
as long as a leaf's, which is the least that somebody does who has no block roots.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from benchmarks.floor import TUPLE_BYTES
from benchmarks.inputs import write_ipc
from benchmarks.measure import note, pairs
from benchmarks.release import declare, place, publish_once
from publisher.member_index import encode_part, index_table, member_index, put_parts
from shardrel.canonical import json
from shardrel.canonical.sha import fixed_rows, sha256_rows
from shardrel.data.reading import stored_reading
from shardrel.digest import raw_digest, to_digest
from shardrel.membership.bounds import PART_RECORDS
from shardrel.membership.columns import Members
from shardrel.membership.merkle import MerkleStream, ordered_root
from shardrel.membership.tuples import member_leaves
from shardrel.proofs.prove import proof_bytes, prove
from shardrel.records.descriptor import PARQUET
from shardrel.records.release import Release
from shardrel.records.snapshot import Part, Snapshot
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked
from verifier.proof import check_proof

SHARDS = 16
SIZES = {"half-a-million": 500_000, "5-million": 5_000_000}
_BATCH = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """A release to prove about."""

    store: Store
    root: str
    members: int


def measure_proofs(*, quick: bool) -> dict[str, object]:
    """Ratio, seconds and size of a proof at each size; ``growth`` is that of the seconds from the first to the last."""
    results: dict[str, object] = {}
    seconds: list[float] = []
    for name, members in SIZES.items():
        count = members // 20 if quick else members
        with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as folder:
            summary = _measured(_release(Path(folder), count), count=3 if quick else 7)
        results[f"prove.{name}"] = summary
        results[f"prove.{name}.ratio"] = summary["ratio"]
        seconds.append(summary["ours_s"])
        note(f"prove.{name}: {summary}")
    results["prove.growth"] = round(seconds[-1] / seconds[0], 3)
    return results


def _measured(at: Proving, count: int) -> dict[str, float]:
    reading = stored_reading(at.store, Unlocked())
    # Members at both ends of a block and inside of one, and ids that nobody has.
    numbers = [at.members // 3, at.members // 2, min(_BATCH, at.members) - 1, 0]
    asked = [_id(number) for number in numbers] + [_id(number) + "x" for number in numbers]
    made = iter(range(1_000_000))

    def ours() -> None:
        proof = prove(at.store, at.root, asked[next(made) % len(asked)], reading)
        if proof.count != (not proof.sample_id.endswith("x")):
            raise SystemExit("a proof says something else than is there")

    row = np.random.default_rng(1).integers(0, 256, (_BATCH, TUPLE_BYTES), dtype=np.uint8)
    rows = fixed_rows(row)

    def baseline() -> None:
        for first in range(0, at.members, _BATCH):
            sha256_rows(rows.slice(0, min(_BATCH, at.members - first)))

    proofs = [proof_bytes(prove(at.store, at.root, sample_id, reading)) for sample_id in asked]
    checked = pairs(lambda: [check_proof(data, at.root) for data in proofs], baseline, 3)
    check_ms = 1000 * min(checked.ours) / len(proofs)
    told = {"members": at.members, "bytes": max(map(len, proofs)), "check_ms": round(check_ms, 3)}
    return {**pairs(ours, baseline, count).summary(), **told}


def _release(folder: Path, members: int) -> Proving:
    """A published release whose members are replaced by ``members`` others."""
    write_ipc(folder / "source.arrow", "small", SHARDS, 10)
    at = place(folder / "store", folder / "keys")
    digest = declare(at, folder / "source.arrow", None)
    release = json.decode(
        get_by_digest(at.store, publish_once(at, digest, folder / "source.arrow", SHARDS).root), Release
    )
    tree = MerkleStream()
    declared: list[Part] = []
    indexed: list[Part] = []
    for part in _parts(members):
        leaves = member_leaves(part, raw_digest(release.record_schema))
        tree.append(leaves)
        declared.append(_declared(at.store, part))
        places = np.zeros(len(part), np.uint32)
        indexed += put_parts(at.store, index_table(part.sample_ids, leaves, places, places))
    root = to_digest(ordered_root(tree.root(), members, release.tombstone_watermark, release.benchmark_fence))
    snapshot = get_record(at.store, release.objects.snapshot, Snapshot)
    objects = replace(
        release.objects,
        snapshot=put_record(at.store, replace(snapshot, parts=tuple(declared), records=members)),
        member_index=put_record(at.store, member_index(tuple(indexed), root, tree.block_roots())),
    )
    totals = replace(release.totals, records=members)
    manifest = replace(release, ordered_member_tuple_root=root, objects=objects, totals=totals)
    return Proving(store=at.store, root=put_record(at.store, manifest).digest, members=members)


def _parts(members: int) -> Iterator[Members]:
    rng = np.random.default_rng(2)
    for first in range(0, members, PART_RECORDS):
        count = min(PART_RECORDS, members - first)
        same = pa.array(["source.arrow"]).dictionary_encode().take(pa.array(np.zeros(count, np.int64)))
        yield Members(
            sample_ids=pa.array([_id(number) for number in range(first, first + count)]),
            source_ids=same,
            source_versions=same,
            splits=same,
            digests=rng.integers(0, 256, (count, 32), dtype=np.uint8),
        )


def _declared(store: Store, members: Members) -> Part:
    descriptor, _ = put(store, memoryview(encode_part(members.to_table())), PARQUET)
    last = members.sample_ids[-1].as_py()
    return Part(object=unversioned(descriptor), records=len(members), last_sample_id=last)


def _id(number: int) -> str:
    return f"sample-{number:010d}"
