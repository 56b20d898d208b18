"""``shardrel digest``: logical digests of files as they are."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli.arguments import Sources
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.words import counted

if TYPE_CHECKING:
    import publisher.digest
    import verifier.digest

    FileDigest = publisher.digest.FileDigest | verifier.digest.FileDigest

_By = Literal["publisher", "verifier"]


def digest(
    settings: Settings,
    sources: Sources,
    by: Annotated[_By, typer.Option(help="Which of the two independent encoders to ask.")] = "publisher",
) -> Result:
    """Digest files by what they mean: equal after a rewrite exactly when no reader could tell."""
    from shardrel.sources import list_files

    digest_file = _encoder(by)
    found = [digest_file(source.path) for source in list_files(sources)]
    rows = [(one.logical_digest, one.records, one.path) for one in found]
    return Result(
        data={
            "files": [
                {
                    "path": str(one.path),
                    "records": one.records,
                    "schemaDigest": one.schema_digest,
                    "logicalDigest": one.logical_digest,
                }
                for one in found
            ]
        },
        headline=f"{counted(len(found), 'file')}, digested by the {by}'s encoder",
        tables=[Table(columns=["logical digest", "records", "path"], rows=rows)],
    )


def _encoder(by: _By) -> "Callable[[Path], FileDigest]":
    if by == "verifier":
        from verifier.digest import digest_file as by_verifier

        return by_verifier
    from publisher.digest import digest_file as by_publisher

    return by_publisher
