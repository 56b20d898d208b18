"""``shardrel probe``: does this store keep its promises?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel import clock
from shardrel.cli.access import the_store
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings

if TYPE_CHECKING:
    from shardrel.store.port import Store
    from shardrel.store.probe import ProbeVerdict

_MAX_VERDICT = 1 << 16


def probe(
    settings: Settings, thorough: Annotated[bool, typer.Option("--thorough", help="More racers, more rounds.")] = False
) -> Result:
    """Try what the gate rests on: exclusive creates, compare-and-swap, exact versions."""
    from shardrel.store.probe import THOROUGH
    from shardrel.store.probe import probe as try_store

    store = the_store(settings)
    found = try_store(store, THOROUGH) if thorough else try_store(store)
    checks = [
        {"name": check.name, "ok": check.ok, "required": check.required, "detail": check.detail}
        for check in found.checks
    ]
    rows = [
        (c.name, "ok" if c.ok else "FAILED", "required" if c.required else "advisory", c.detail) for c in found.checks
    ]
    return Result(
        data={"verdict": found.verdict, "checks": checks, "store": store.url},
        headline=f"{store.url}: {found.verdict}",
        tables=[Table(columns=["check", "", "", "seen"], rows=rows)],
        status=0 if found.conformant else 1,
    )


def keep_verdict(store: "Store", dataset: str, found: "ProbeVerdict") -> None:
    """Keep what a probe found beside the gate, for people and for ``status``.

    Effects: one swap, whose outcome does not matter: the verdict is advice and never a source of truth.
    """
    from shardrel.canonical import json
    from shardrel.store.layout import probe_key

    key = probe_key(dataset)
    before = store.read(key, max_bytes=_MAX_VERDICT)
    failed = [check.name for check in found.checks if not check.ok]
    data = json.encode({"verdict": found.verdict, "failed": failed, "probedOn": clock.now_utc()})
    store.swap(key, data, None if before is None else before.token)


def kept_verdict(store: "Store", dataset: str) -> dict[str, Any] | None:
    """What ``init`` or the last ``probe`` kept; None where nothing was."""
    import msgspec

    from shardrel.store.layout import probe_key

    stored = store.read(probe_key(dataset), max_bytes=_MAX_VERDICT)
    try:
        return None if stored is None else msgspec.json.decode(stored.data, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
