"""``shardrel verify-bundle``: is what a crash drill left behind what it says?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.drill_crash import LAB_KEY, need_torch
from shardrel.cli.files import write_file
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings

if TYPE_CHECKING:
    from shardrel.lab.verify import Verified
    from shardrel.records.policy import PublicKey


def verify_bundle(
    settings: Settings,
    bundle: Annotated[Path, typer.Argument(metavar="DIR", help="What drill crash left.")],
    signed_by: Annotated[
        Path | None,
        typer.Option("--signed-by", metavar="FILE", help="Public key of who made it; default: lab.pub.json of --keys."),
    ] = None,
    records_only: Annotated[
        bool,
        typer.Option("--records-only", help="Only what the records say of each other: of evidence without its stores."),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Draw one that passed as a page."),
    ] = None,
) -> Result:
    """Check a crash drill's bundle by its structure, and compute again what can be: states, ledger, logits, data.

    Nothing is changed. Exit status: 0 when it is what it says, 1 when it is not.
    """
    need_torch()
    from shardrel.lab.fashion import FASHION_MNIST
    from shardrel.lab.installed import package_digest
    from shardrel.lab.page import page
    from shardrel.lab.verify import verify_bundle as verify_all
    from shardrel.lab.verify import verify_records

    verify = verify_records if records_only else verify_all
    done = verify(bundle, _keys(settings, signed_by), FASHION_MNIST, package_digest())
    if html is not None and done.bundle is not None and not done.failures:
        write_file(html, page(done.bundle).encode())
    return _shown(done, records_only=records_only)


def _keys(settings: Settings, signed_by: Path | None) -> "list[PublicKey]":
    from shardrel.cli.access import the_key
    from shardrel.trust import keyring

    if signed_by is not None:
        return [keyring.load_public_file(signed_by)]
    if settings.key:
        return [the_key(settings, reference).public for reference in settings.key]
    return [keyring.public(settings.keys, LAB_KEY)]


_STORES_ABSENT = (
    "The stores that a drill leaves in its bundle are not here, so nothing can be computed again from them; with "
    "--records-only the records are held against each other and their signature."
)


def _shown(done: "Verified", *, records_only: bool) -> Result:
    from shardrel.lab.verify import NO_STORES

    verdict = "FAILED" if done.failures else "PASSED"
    found = done.bundle
    rows = [(one.check, one.subject) for one in done.failures]
    return Result(
        data={
            "verdict": verdict,
            "failures": [{"check": check, "subject": subject} for check, subject in rows],
            "unproven": list(done.unproven),
            "barrier": found and found.audit.barrier,
            "outcome": found and found.audit.outcome,
            "root": found and found.audit.root,
            "revision": found and found.audit.revision,
        },
        headline=f"{verdict}: the records alone" if records_only else verdict,
        sentences=[_STORES_ABSENT] if NO_STORES in done.failures else [],
        facts=[(_why(records_only=records_only), ", ".join(done.unproven))] if done.unproven else [],
        tables=[Table(columns=["check", "about"], rows=rows)] if rows else [],
        status=1 if rows else 0,
    )


def _why(*, records_only: bool) -> str:
    return "not looked at" if records_only else "not computed again, since bits may differ here"
