"""What ``shardrel verify --fences-only --staged --in-use`` does: delta reports, of one root or of all in use."""

from typing import TYPE_CHECKING, Any

from shardrel.cli.output import Result, Table
from shardrel.errors import RefusedError

if TYPE_CHECKING:
    from shardrel.gate.view import GateView
    from shardrel.store.port import Store
    from verifier.verify import VerifyResult, World


def recheck(
    store: "Store", view: "GateView", root: str | None, *, in_use: bool, staged: bool, world: "World"
) -> Result:
    """Recheck one root, every root that an alias or an open run uses, or both."""
    from verifier.in_use import roots_in_use

    users = roots_in_use(view.body) if in_use else {}
    if root is not None:
        users = {root: users.get(root, ()), **users}
    alone = not in_use
    checked = [_one(store, view, name, users[name], alone=alone, staged=staged, world=world) for name in users]
    failed = [one for one in checked if one["verdict"] != "PASSED"]
    return Result(
        data={
            "root": root,
            "verdict": "FAILED" if failed else "PASSED",
            "counts": _sum(checked),
            "findings": [finding for one in checked for finding in one["findings"]],
            "report": checked[0]["report"] if root is not None else None,
            "staged": _staged(view) if staged else None,
            "roots": checked,
        },
        headline=f"{'FAILED' if failed else 'PASSED'}: {len(checked)} roots, {len(failed)} of them not eligible",
        facts=[("reports signed", sum(len(one["reports"]) for one in checked))],
        tables=[_table(checked)] if checked else [],
        status=1 if failed else 0,
    )


def _one(
    store: "Store", view: "GateView", root: str, users: tuple[str, ...], *, alone: bool, staged: bool, world: "World"
) -> dict[str, Any]:
    from verifier.in_use import check_ahead, last_report

    error = None
    done: list[VerifyResult] = []
    report: str | None = None
    try:
        done = check_ahead(store, root, view, staged=staged, world=world)
        report = done[-1].report_digest if done else last_report(store, root, view, staged=staged, world=world)
    except RefusedError as err:
        if alone:
            raise
        error = {"code": err.code.value, "message": err.message}
    return {"root": root, "usedBy": list(users), "report": report, **_plain(done, error)}


def _plain(done: "list[VerifyResult]", error: dict[str, str] | None) -> dict[str, Any]:
    import msgspec

    passed = error is None and all(one.report.verdict == "PASSED" for one in done)
    reports = [{"counts": msgspec.to_builtins(one.report.counts)} for one in done]
    return {
        "verdict": "PASSED" if passed else "FAILED",
        "counts": _sum(reports),
        "findings": [msgspec.to_builtins(finding) for one in done for finding in one.report.findings],
        "reports": [
            {
                "report": one.report_digest,
                "verdict": one.report.verdict,
                "tombstones": msgspec.to_builtins(one.report.tombstones),
                "benchmarks": msgspec.to_builtins(one.report.benchmarks),
            }
            for one in done
        ],
        "error": error,
    }


def _sum(checked: list[dict[str, Any]]) -> dict[str, int]:
    """All counts, also where nothing was checked: a script reads them without asking first."""
    import msgspec

    from shardrel.records.report import Counts

    return {name: sum(one["counts"][name] for one in checked) for name in msgspec.to_builtins(Counts())}


def _staged(view: "GateView") -> dict[str, int | None]:
    fences = {"tombstones": view.body.tombstones, "benchmarks": view.body.benchmarks}
    return {name: None if fence.staged is None else fence.staged.watermark for name, fence in fences.items()}


def _table(checked: list[dict[str, Any]]) -> Table:
    rows = [
        (
            one["verdict"],
            len(one["reports"]),
            one["counts"]["tombstoneHits"] + one["counts"]["benchmarkHits"],
            one["root"],
            ", ".join(one["usedBy"][:4]) + (" …" if len(one["usedBy"]) > 4 else ""),
        )
        for one in checked
    ]
    return Table(columns=["verdict", "reports", "hits", "root", "used by"], rows=rows)
