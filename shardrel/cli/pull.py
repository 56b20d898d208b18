"""``shardrel pull``: the exact bytes of a release, in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import the_root, the_store
from shardrel.cli.arguments import Root
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.output import Result, meter
from shardrel.cli.settings import Settings
from shardrel.errors import FormatError, IntegrityError, NotFoundError

if TYPE_CHECKING:
    from shardrel.store.port import Store

_SAYS = {
    "STAGED": "STAGED: it was published, and no alias ever pointed to it",
    "ADMITTED": "ADMITTED: an alias points to it, or did",
    "INVALID": "INVALID: it was revoked",
}


def pull(
    settings: Settings,
    root: Root,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to put the files into.")],
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Only the records of this split.")] = None,
    decrypt: Decrypt = None,
    ciphertext: Annotated[
        bool, typer.Option("--ciphertext", help="Fetch the shards of an encrypted release as they are stored.")
    ] = False,
) -> Result:
    """Fetch a release and check every byte of it. Interrupted and run again, it goes on."""
    from shardrel.data.pull import pull_release

    store = the_store(settings)
    known = _known(store, settings.dataset)
    digest = the_root(root, list(known))
    with meter("pull", quiet=settings.as_json) as progress:
        done = pull_release(
            store,
            digest,
            to,
            split=split,
            progress=progress,
            unlocked=None if ciphertext else unlocked(decrypt),
            ciphertext=ciphertext,
        )
    state = known.get(digest)
    return Result(
        data={
            "root": digest,
            "shards": done.shards,
            "records": done.records,
            "bytes": done.bytes,
            "alreadyPresent": done.present,
            "state": state,
            "folder": str(to),
        },
        headline=f"{done.shards} shards, {done.records:,} records in {to}",
        facts=[
            ("root", digest),
            ("split", split or "all"),
            ("bytes", f"{done.bytes:,}"),
            ("already there", done.present),
            ("the gate says", _SAYS.get(state or "", "nothing of this root")),
        ],
    )


def _known(store: "Store", dataset: str) -> dict[str, str]:
    """Roots that the gate has heard of, with their states; bytes are fetched by their digest, gate or no gate."""
    from shardrel.gate.view import find_gate

    try:
        view = find_gate(store, dataset)
    except (FormatError, IntegrityError, NotFoundError):
        return {}
    return {} if view is None else {root: candidate.state for root, candidate in view.body.candidates.items()}
