"""``shardrel probe``: does this store keep its promises?"""

from typing import Annotated

import typer

from shardrel import clock
from shardrel.cli.access import the_store
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings


def probe(
    settings: Settings,
    thorough: Annotated[bool, typer.Option("--thorough", help="More racers, processes and rounds.")] = False,
) -> Result:
    """Try what the gate rests on: exclusive creates, compare-and-swap, exact versions.

    A verdict that `init` kept is replaced by this one.
    """
    from shardrel.store.probe import FULL, THOROUGH
    from shardrel.store.probe import probe as try_store
    from shardrel.store.verdicts import keep, kept

    store = the_store(settings)
    found = try_store(store, THOROUGH if thorough else FULL)
    if kept(store, settings.dataset) is not None:
        keep(store, settings.dataset, found, clock.now_utc())
    checks = [
        {"name": check.name, "ok": check.ok, "required": check.required, "detail": check.detail}
        for check in found.checks
    ]
    rows = [
        (c.name, "ok" if c.ok else "FAILED", "required" if c.required else "advisory", c.detail) for c in found.checks
    ]
    return Result(
        data={"verdict": found.verdict, "checks": checks, "quotedTokens": found.quoted_tokens, "store": store.url},
        headline=f"{store.url}: {found.verdict}",
        tables=[Table(columns=["check", "", "", "seen"], rows=rows)],
        status=0 if found.conformant else 1,
    )
