"""``shardrel verify``: the independent verification, and what follows from a FAILED one."""

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel import clock
from shardrel.cli.access import the_root, the_store_to_write
from shardrel.cli.arguments import Engine, Workers
from shardrel.cli.bulk import for_bulk
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.output import Result, Table, meter
from shardrel.cli.recheck import recheck
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call, role_keys, signers, the_gate
from shardrel.cli.standing import Standing, standing
from shardrel.cli.words import counted
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.store.port import Store
    from verifier.verify import VerifyResult

_SHOWN = 20
REASON = "verification.failed"
# The fence that a hit rests on refuses the root by itself, and says more. What a publisher says about a root may be
# withheld by anybody who can delete an object, and is gone with a key that was rotated, until it is said again.
_NO_GROUND = {
    ErrorCode.TOMBSTONE_HIT,
    ErrorCode.BENCHMARK_HIT,
    ErrorCode.PROVENANCE_ABSENT,
    ErrorCode.PROVENANCE_INVALID,
    ErrorCode.EVOLUTION_NOT_ATTESTED,
}


def verify(
    settings: Settings,
    root: Annotated[
        str | None,
        typer.Argument(metavar="[ROOT]", help="Digest of a root manifest, or a prefix that the gate knows."),
    ] = None,
    workers: Workers = 2,
    engine: Engine = "local",
    fences_only: Annotated[
        bool, typer.Option("--fences-only", help="Only the log entries since the last report of this root.")
    ] = False,
    staged: Annotated[
        bool, typer.Option("--staged", help="Also the entries that are staged behind the fences; deltas only.")
    ] = False,
    in_use: Annotated[
        bool, typer.Option("--in-use", help="Every root that an alias or an open run uses, and ROOT; deltas only.")
    ] = False,
    decrypt: Decrypt = None,
) -> Result:
    """Verify a release from its digest alone, at the gate's fences of now, and sign what was seen.

    FAILED revokes the root, where the gate knows it and a governor's key is at hand: it is INVALID from then on, until it
    passes again in full, is approved afresh and admitted. Only what a fence names (the fence refuses the root by itself)
    and what a publisher has yet to sign revoke nothing. --fences-only, --staged and --in-use look at fences alone.
    """
    for_bulk()
    from verifier.recheck import recheck_fences
    from verifier.verify import World, verify_release

    if root is None and not in_use:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "name a ROOT, or say --in-use for all that are used")
    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    digest = None if root is None else the_root(root, list(view.body.candidates))
    [signer, *_] = signers(settings, view.policy, "verifier")
    with meter("verify", quiet=settings.as_json) as progress:
        world = World(signer=signer, now=clock.now_utc, progress=progress, workers=workers, unlocked=unlocked(decrypt))
        if digest is None or in_use or staged:
            return recheck(store, view, digest, in_use=in_use, staged=staged, world=world)
        check = recheck_fences if fences_only else verify_release
        done = check(store, digest, view, world=world)
    revoked = _revoked(settings, store, view, done)
    return _shown(done, revoked, standing(settings, store, digest))


def _revoked(settings: Settings, store: "Store", view: "GateView", done: "VerifyResult") -> dict[str, Any] | None:
    """Hand a FAILED report of a root that the gate knows to the gate, where a local key may.

    Some findings alone revoke nothing, those in ``_NO_GROUND``.
    """
    from shardrel.gate.revoke import revoke

    report = done.report
    candidate = view.body.candidates.get(report.root)
    groundless = {finding.code for finding in report.findings} <= _NO_GROUND
    if report.verdict == "PASSED" or candidate is None or candidate.state == "INVALID" or groundless:
        return None
    try:
        keys = role_keys(settings, view.policy, ["governor"])
        if not keys:
            return None
        # Another run makes another report, so nobody will ask for this operation again: no id of it is kept.
        caller = dataclasses.replace(call(keys, settings), pending=None)
        gone = revoke(store, settings.dataset, report.root, REASON, caller, report=done.report_digest)
    except ShardrelError as err:
        # The verdict stands whatever the gate answers; a person has to see both.
        return {"state": None, "error": {"code": err.code.value, "message": err.message}}
    except OSError as err:
        # Such as a folder of keys that cannot be written, where the operation's id would be kept.
        reason = os.strerror(err.errno) if err.errno else type(err).__name__
        return {"state": None, "error": {"code": ErrorCode.STORE_UNAVAILABLE.value, "message": reason}}
    return {"state": gone.state, "closedPermits": list(gone.closed_permits)}


def _shown(done: "VerifyResult", revoked: dict[str, Any] | None, stands: Standing) -> Result:
    import msgspec

    report = done.report
    findings = msgspec.to_builtins(report.findings)
    counts = msgspec.to_builtins(report.counts)
    wrong = [(name, number) for name, number in counts.items() if number]
    return Result(
        data={
            "root": report.root,
            "verdict": report.verdict,
            "kind": report.kind,
            "counts": counts,
            "findings": findings,
            "findingsTotal": report.findings_total,
            "report": done.report_digest,
            "summary": done.summary_digest,
            "new": done.summary_digest is not None,
            "shards": report.shards,
            "records": report.records,
            "tombstones": msgspec.to_builtins(report.tombstones),
            "benchmarks": msgspec.to_builtins(report.benchmarks),
            "revocation": revoked,
            "state": stands.state,
            "hitBy": None
            if done.entries is None
            else dict(zip(("tombstones", "benchmarks"), map(list, done.entries), strict=True)),
        },
        headline=f"{report.verdict}: {counted(report.shards, 'shard')}, {counted(report.records, 'record')}"
        + ("" if done.summary_digest else "; nothing is new since that report, and nothing was signed"),
        facts=[
            ("root", report.root),
            ("report", done.report_digest),
            *wrong,
            ("the gate", stands.sentence),
            *_unrevoked(revoked),
            *_looked_at(done),
        ],
        tables=[_table(findings)] if findings else [],
        status=0 if report.verdict == "PASSED" else 1,
    )


def _unrevoked(revoked: dict[str, Any] | None) -> list[tuple[str, object]]:
    if revoked is None or revoked["state"]:
        return []
    return [("not revoked", revoked["error"]["message"])]


def _looked_at(done: "VerifyResult") -> list[tuple[str, object]]:
    """Which entries a hit is of, or where to go on from it: a report tells their range, and no names."""
    report, entries = done.report, done.entries or (None, None)
    logs = (
        ("tombstones", report.counts.tombstone_hits, report.tombstones, entries[0]),
        ("benchmarks", report.counts.benchmark_hits, report.benchmarks, entries[1]),
    )
    return [
        (f"hit by {name}", _listed(sequences))
        if sequences
        else (
            "looked at",
            f"{name} {seen.first} to {seen.last}; shardrel affected --{name} FILE counts the members that "
            "the entries of a file name",
        )
        for name, hits, seen, sequences in logs
        if hits
    ]


def _listed(sequences: Sequence[int]) -> str:
    more = f" and {len(sequences) - _SHOWN} more (--json has all)" if len(sequences) > _SHOWN else ""
    return ", ".join(map(str, sequences[:_SHOWN])) + more


def _table(findings: list[dict[str, Any]]) -> Table:
    rows = [(f["code"], f["count"], f["subject"], f["detail"] or "") for f in findings[:_SHOWN]]
    more = f" (the first {_SHOWN} of {len(findings)})" if len(findings) > _SHOWN else ""
    return Table(title=f"Findings{more}", columns=["code", "count", "about", ""], rows=rows)
