"""``shardrel pull``: the exact bytes of a release, in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from shardrel.cli.access import full_digest, the_store
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.output import Result, meter
from shardrel.cli.settings import Settings


def pull(
    settings: Settings,
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Digest of a root manifest.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to put the files into.")],
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Only the records of this split.")] = None,
    decrypt: Decrypt = None,
    ciphertext: Annotated[
        bool, typer.Option("--ciphertext", help="Fetch the shards of an encrypted release as they are stored.")
    ] = False,
) -> Result:
    """Fetch a release and check every byte of it. Interrupted and run again, it goes on."""
    from shardrel.data.pull import pull_release

    digest = full_digest(root)
    with meter("pull", quiet=settings.as_json) as progress:
        done = pull_release(
            the_store(settings),
            digest,
            to,
            split=split,
            progress=progress,
            unlocked=None if ciphertext else unlocked(decrypt),
            ciphertext=ciphertext,
        )
    return Result(
        data={"root": digest, "shards": done.shards, "records": done.records, "bytes": done.bytes, "folder": str(to)},
        headline=f"{done.shards} shards, {done.records} records in {to}",
        facts=[("root", digest), ("bytes", f"{done.bytes:,}")],
    )
