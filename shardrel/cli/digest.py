"""``shardrel digest``: logical digests of files as they are."""

from typing import Annotated, Literal

import typer

from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings


def digest(
    settings: Settings,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files, folders or globs.")],
    by: Annotated[
        Literal["publisher", "verifier"], typer.Option(help="Which of the two independent encoders to ask.")
    ] = "publisher",
) -> Result:
    """Digest files by what they mean: equal after a rewrite exactly when no reader could tell."""
    from shardrel.sources import list_files

    if by == "verifier":
        from verifier.digest import digest_file
    else:
        from publisher.digest import digest_file
    found = [digest_file(source.path) for source in list_files(sources)]
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
        headline=f"{len(found)} files, digested by the {by}'s encoder",
        tables=[
            Table(
                columns=["logical digest", "records", "path"],
                rows=[(f.logical_digest, f.records, f.path) for f in found],
            )
        ],
    )
