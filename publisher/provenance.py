"""Provenance: which snapshot, parameters and source files a root was made from. Source: schemas/SPEC.md#attestations.

It holds a time, so it is no part of the root; a later run of the same publication keeps the one
that is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardrel.canonical import json
from shardrel.digest import digest_of, raw_digest
from shardrel.errors import FormatError, TrustError
from shardrel.gate.attestations import list_envelopes, read_envelope
from shardrel.records.report import BUILD_TYPE, PROVENANCE_PREDICATE, STATEMENT_PAYLOAD
from shardrel.store.port import Store
from shardrel.trust.envelope import seal, unseal
from shardrel.trust.signer import Signer
from shardrel.trust.statement import read_statement, statement

BUILDER = "https://shardrel.dev/publisher/v1"

# Beyond this the list of files is named by its digest, so that an envelope keeps its bound.
_LISTED_FILES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a publication was asked to do, and when it ran.

    Attributes:
        parameters: As for the root; nothing that changes with workers or machines.
        sources: POSIX path, relative to its source, and digest of each source file.
    """

    snapshot: str
    parameters: Mapping[str, Any]
    sources: Sequence[tuple[str, str]]
    publication: str
    started_on: str
    finished_on: str


def provenance(root: str, dataset: str, build: Build, signer: Signer) -> bytes:
    """The signed envelope: SLSA provenance v1 whose subject is the root."""
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"snapshot": build.snapshot, "parameters": dict(build.parameters)},
            "internalParameters": {},
            "resolvedDependencies": [_dependency("snapshot", build.snapshot), *_sources(build.sources)],
        },
        "runDetails": {
            "builder": {"id": BUILDER},
            "metadata": {
                "invocationId": build.publication,
                "startedOn": build.started_on,
                "finishedOn": build.finished_on,
            },
        },
    }
    return seal(statement(root, PROVENANCE_PREDICATE, predicate, dataset), STATEMENT_PAYLOAD, [signer])


def nameless(sources: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Source files by number: without a column of ids, sample ids are made of their names."""
    return [(f"{number:06d}", digest) for number, (_, digest) in enumerate(sorted(sources))]


def has_provenance(store: Store, root: str, signer: Signer) -> bool:
    """Whether a provenance of this root by this very key is there already."""
    return has_statement(store, root, signer, PROVENANCE_PREDICATE)


def has_statement(store: Store, root: str, signer: Signer, kind: str) -> bool:
    """Whether a statement of this predicate type about this root by this very key is there already."""
    return any(_is_ours(store, digest, root, signer, kind) for digest in list_envelopes(store, root))


def _is_ours(store: Store, digest: str, root: str, signer: Signer, kind: str) -> bool:
    envelope = read_envelope(store, root, digest)
    if envelope is None:
        return False
    try:
        opened = unseal(envelope, STATEMENT_PAYLOAD, [signer.public])
        read_statement(opened.payload, root, kind)
    except (TrustError, FormatError):
        return False
    return True


def _sources(sources: Sequence[tuple[str, str]]) -> Iterable[dict[str, Any]]:
    if len(sources) <= _LISTED_FILES:
        return [_dependency(f"source/{name}", digest) for name, digest in sorted(sources)]
    return [_dependency("sources", digest_of(json.encode(sorted(sources))))]


def _dependency(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": raw_digest(digest).hex()}}
