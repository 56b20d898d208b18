"""Check a proof with nothing but Python: no package, no store, no network. Written from schemas/SPEC.md#proofs.

    python check_proof.py PROOF.json sha256:ROOT

Prints what the proof shows, or why it does not hold (exit status 1; 2 where the call is wrong). Somebody who does not want to install, or to
trust, the program that made a proof reads this page and runs it.
"""

import hashlib
import json
import sys
from typing import Any

FIELDS = {"about", "count", "first", "left", "members", "nodes", "release", "right", "sampleId", "schema"}
MEMBER = {"contentDigest", "sourceId", "sourceVersion", "split"}
NEIGHBOUR = {"contentDigest", "origin", "sampleId"}


class WrongProof(Exception):
    """Why a proof does not hold."""


def need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise WrongProof(otherwise)


def check(data: bytes, root: str) -> str:
    """What the proof shows, in words."""
    try:
        proof = json.loads(data)
        need(canonical(proof) == data, "the file is not in canonical form")
        return facts(proof, root)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as err:
        raise WrongProof("this is no proof") from err


def facts(proof: dict[str, Any], root: str) -> str:
    """Hold every field against the root digest."""
    need(set(proof) == FIELDS and proof["schema"] == "training.shard.proof.v1", "this is no proof")
    release, members, left, right = (proof[name] for name in ("release", "members", "left", "right"))
    need("sha256:" + hashlib.sha256(canonical(release)).hexdigest() == root, "it is about another release")
    need([type(proof[name]) for name in ("first", "count", "members", "nodes")] == [int, int, list, list], "no proof")
    need(proof["count"] == len(members), "it shows another number of members than it says")
    need(left is None or sample_of(left) < sample_of(proof), "the left neighbour is not below the sample id")
    need(right is None or sample_of(right) > sample_of(proof), "the right neighbour is not above the sample id")
    need(members == sorted(members, key=order), "the members are not in order")

    leaves = [neighbour(left)] if left is not None else []
    leaves += [leaf(origin(member, release), member, sample_of(proof)) for member in members]
    leaves += [neighbour(right)] if right is not None else []
    size, first, last = release["totals"]["records"], proof["first"], proof["first"] + len(leaves)
    need(len(leaves) > 0 and first >= 0 and last <= size, "it shows leaves outside of the tree")
    need((left is not None or first == 0) and (right is not None or last == size), "a neighbour is missing")

    nodes = [raw(node) for node in proof["nodes"]]
    head = tree(first, leaves, nodes, 0, size)
    need(not nodes, "it has too many nodes")
    numbers = (size, release["tombstoneWatermark"], release["benchmarkFence"])
    ordered_root = hashed("root", head, *map(u64, numbers))
    need(ordered_root == raw(release["orderedMemberTupleRoot"]), "the leaves do not lead to the release's ordered root")

    said = words(root, release, proof["sampleId"], len(members))
    need(proof["about"] == said, "it says in words what it does not show")
    return said


def tree(first: int, leaves: list[bytes], nodes: list[bytes], lower: int, upper: int) -> bytes:
    """Root of the subtree over [lower, upper), which is the next node where the subtree holds no shown leaf."""
    if upper <= first or first + len(leaves) <= lower:
        need(len(nodes) > 0, "it has too few nodes")
        return nodes.pop(0)
    if upper - lower == 1:
        return leaves[lower - first]
    half = 1
    while half * 2 < upper - lower:
        half *= 2
    below = tree(first, leaves, nodes, lower, lower + half)
    return hashed("node", below, tree(first, leaves, nodes, lower + half, upper))


def sample_of(shown: dict[str, Any]) -> bytes:
    need(0 < len(shown["sampleId"]) <= 1024, "this can be no sample id")
    sample_id: bytes = shown["sampleId"].encode()
    return sample_id


def neighbour(shown: dict[str, Any]) -> bytes:
    need(set(shown) == NEIGHBOUR, "a neighbour shows something else")
    return leaf(raw(shown["origin"]), shown, sample_of(shown))


def origin(member: dict[str, Any], release: dict[str, Any]) -> bytes:
    need(set(member) == MEMBER, "a member shows something else")
    parts = [member[name].encode() for name in ("sourceId", "sourceVersion", "split")]
    return hashed("origin", *[u64(len(part)) + part for part in parts], raw(release["recordSchema"]))


def leaf(of_origin: bytes, shown: dict[str, Any], sample_id: bytes) -> bytes:
    return hashed("tuple", of_origin, raw(shown["contentDigest"]), sample_id)


def order(member: dict[str, Any]) -> tuple[bytes, ...]:
    source, version, split = (member[name].encode() for name in ("sourceId", "sourceVersion", "split"))
    return source, version, raw(member["contentDigest"]), split


def words(root: str, release: dict[str, Any], sample_id: str, count: int) -> str:
    def members(number: int) -> str:
        return "1 member" if number == 1 else f"{number} members"

    return (
        f"Release {root} of the dataset {release['dataset']} holds {f'exactly {members(count)}' if count else 'no member'} "
        f"with the sample id {canonical(sample_id).decode()}. It has {members(release['totals']['records'])}. By its "
        f"manifest, deletions are taken into account up to entry {release['tombstoneWatermark']} of the tombstone log, "
        f"and benchmarks up to entry {release['benchmarkFence']} of the benchmark log."
    )


def hashed(kind: str, *parts: bytes) -> bytes:
    return hashlib.sha256(f"shardrel/{kind}".encode().ljust(16, b"\0") + b"".join(parts)).digest()


def raw(digest: str) -> bytes:
    need(len(digest) == 71 and digest.startswith("sha256:") and set(digest[7:]) <= set("0123456789abcdef"), "no digest")
    return bytes.fromhex(digest[7:])


def u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def canonical(value: object) -> bytes:
    """Canonical JSON (RFC 8785) of what a proof holds."""
    return json.dumps(in_order(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def in_order(value: object) -> object:
    if isinstance(value, list):
        return [in_order(one) for one in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=lambda key: key.encode("utf-16-be"))}
    return value


def main(arguments: list[str]) -> str | int:
    """What to exit with: 0, or a sentence and 1 for a proof that does not hold; 2 for a call that is wrong."""
    if len(arguments) != 2:
        print("usage: python check_proof.py PROOF.json sha256:ROOT", file=sys.stderr)
        return 2
    path, root = arguments
    try:
        raw(root)
        with open(path, "rb") as file:
            data = file.read()
    except WrongProof:
        print("the root is sha256: and 64 lower-case hex digits, all of them", file=sys.stderr)
        return 2
    except (OSError, ValueError) as err:
        print(f"{path!r} can't be read: {err}", file=sys.stderr)
        return 2
    try:
        print(check(data, root))
    except WrongProof as wrong:
        return f"This proof does not hold: {wrong}."
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
