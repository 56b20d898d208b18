"""Whether a trusted publisher says how this root was made, in words that we understand. Pure.

Source: schemas/SPEC.md#attestations, https://slsa.dev/spec/v1.0/provenance
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from shardrel.errors import ErrorCode
from shardrel.records.report import BUILD_TYPE
from verifier.tally import Spot

_EXTERNAL = frozenset({"snapshot", "parameters"})
_PARAMETERS = frozenset({"shards", "shardBytes", "seed", "compression", "previous", "renames", "encryption"})


def check_provenance(root: str, snapshot: str, predicates: Iterable[bytes]) -> list[Spot]:
    """At least one predicate by a publisher key of the policy must describe this release's snapshot.

    Args:
        predicates: Predicates of envelopes about this root whose signatures were checked.
    """
    seen = list(predicates)
    if not seen:
        return [Spot(code=ErrorCode.PROVENANCE_ABSENT, subject=root)]
    problems = [_problem(predicate, snapshot) for predicate in seen]
    if None in problems:
        return []
    return [Spot(code=ErrorCode.PROVENANCE_INVALID, subject=root, detail=problems[0])]


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
