"""``shardrel prove``: a file that shows how many members of a release have a sample id."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import the_store
from shardrel.cli.decryption import Decrypt, unlocked
from shardrel.cli.files import write_file
from shardrel.cli.output import Result
from shardrel.cli.roots import let_go, root_and_gate
from shardrel.cli.settings import Settings
from shardrel.digest import Domain, domain_hash
from shardrel.errors import NotFoundError

if TYPE_CHECKING:
    from shardrel.records.proof import Proof

RootOption = Annotated[
    str, typer.Option("--root", metavar="ROOT", help="Digest of the root manifest, or a prefix that the gate knows.")
]


def prove(
    settings: Settings,
    sample_id: Annotated[str, typer.Argument(metavar="SAMPLE_ID", help="The sample id, as in the release.")],
    root: RootOption,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; default proof-ROOT-ID.json in this folder.")
    ] = None,
    decrypt: Decrypt = None,
) -> Result:
    """Prove that a sample is in a release, is not in it, or is in it more than once: in a file for anybody."""
    from shardrel.data.reading import stored_reading
    from shardrel.proofs.prove import proof_bytes, prove

    store = the_store(settings)
    digest, view = root_and_gate(settings, store, root)
    try:
        proof = prove(store, digest, sample_id, stored_reading(store, unlocked(decrypt)))
    except NotFoundError as err:
        raise (None if view is None or digest in view.body.candidates else let_go(store, view, digest)) or err from err
    path = out or Path(_file_name(digest, sample_id))
    data = proof_bytes(proof)
    write_file(path, data)
    return Result(
        data={**facts_of(proof, digest), "proof": str(path.absolute()), "bytes": len(data)},
        headline=f"{asserted(proof)}: {path}",
        sentences=[readable(proof.about)],
        facts=[("check it with", f"shardrel check-proof {_word(path)} --root {digest}"), ("bytes", f"{len(data):,}")],
    )


def _word(path: Path) -> str:
    """The path as a shell reads it, and never as an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def facts_of(proof: "Proof", root: str) -> dict[str, object]:
    """What a proof is about, for scripts."""
    return {
        "root": root,
        "dataset": proof.release.dataset,
        "snapshot": proof.release.dataset_snapshot,
        "sampleId": proof.sample_id,
        "present": proof.count > 0,
        "count": proof.count,
        "records": proof.release.totals.records,
        "tombstoneWatermark": proof.release.tombstone_watermark,
        "benchmarkFence": proof.release.benchmark_fence,
    }


def asserted(proof: "Proof") -> str:
    """Presence, absence or duplication, in a few words."""
    if proof.count > 1:
        return f"In the release {proof.count} times"
    return "In the release, once" if proof.count else "Not in the release"


def readable(text: str) -> str:
    """A text with what a terminal would act upon, or would hide, escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _file_name(root: str, sample_id: str) -> str:
    """The id as a digest: it may be anything, also no file name."""
    name = domain_hash(Domain.ID, sample_id.encode()).hex()[:12]
    return f"proof-{root.removeprefix('sha256:')[:12]}-{name}.json"
