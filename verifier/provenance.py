"""Whether trusted publishers say how this root was made, in words that we understand. Pure.

Source: schemas/SPEC.md#attestations, https://slsa.dev/spec/v1.0/provenance
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from shardrel.errors import ErrorCode
from shardrel.gate.facts import SeenProvenance
from shardrel.records.report import BUILD_TYPE
from verifier.tally import Spot

_NAMED = 3
_EXTERNAL = frozenset({"snapshot", "parameters"})
_PARAMETERS = frozenset({"shards", "shardBytes", "seed", "compression", "packed", "previous", "renames", "encryption"})


def check_provenance(
    root: str, snapshot: str, seen: Iterable[SeenProvenance], *, threshold: int, former: Callable[[], Sequence[str]]
) -> list[Spot]:
    """As many publishers of the policy as it asks for must describe this release's snapshot.

    Args:
        root: Digest of the root.
        snapshot: Of its manifest.
        seen: Envelopes about this root, each with the publisher's keys of the policy whose signatures were checked.
        threshold: Of the policy's publishers.
        former: Names of keys that signed one and are no publishers any more; asked for where too few signed.
    """
    judged = [(_problem(one.predicate, snapshot), one.key_ids) for one in seen]
    keys = {key for problem, key_ids in judged if problem is None for key in key_ids}
    if len(keys) >= threshold:
        return []
    if judged and not keys:
        return [Spot(code=ErrorCode.PROVENANCE_INVALID, subject=root, detail=judged[0][0])]
    return [Spot(code=ErrorCode.PROVENANCE_ABSENT, subject=root, detail=too_few(len(keys), threshold, former()))]


def too_few(signed: int, threshold: int, former: Sequence[str]) -> str | None:
    """Why too few publishers vouch for a root, and what to do; None where nobody ever did."""
    if former:
        return (
            f"signed by {_listed(former)}, a key that the policy no longer holds; publish the same snapshot with the same "
            "parameters again, or let the policy hold that key again"
        )
    if signed:
        return f"signed by {signed} of {threshold} publishers; publish again with a --key of each"
    return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _problem(predicate: bytes, snapshot: str) -> str | None:
    try:
        definition = msgspec.json.decode(predicate)["buildDefinition"]
        kind, external = definition["buildType"], definition["externalParameters"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return "it is no SLSA provenance"
    if kind != BUILD_TYPE:
        return "it has another build type"
    if not isinstance(external, dict) or not _understood(external):
        return "it has parameters that are not known"
    return None if external["snapshot"] == snapshot else "it is about another snapshot"


def _understood(external: dict[str, Any]) -> bool:
    parameters = external.get("parameters")
    return set(external) == _EXTERNAL and isinstance(parameters, dict) and set(parameters) <= _PARAMETERS
