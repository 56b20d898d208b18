"""``shardrel check-proof``: check a proof with nothing but the root digest. No store, no network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from shardrel.canonical.json import MAX_RECORD_BYTES
from shardrel.cli.access import full_digest
from shardrel.cli.output import Result, spelled
from shardrel.cli.prove import asserted, facts_of, readable
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, FormatError, IntegrityError, InvalidInputError

if TYPE_CHECKING:
    from shardrel.records.proof import Proof


class _Printed(msgspec.Struct):
    """What ``prove --json`` printed; no proof has this field."""

    proof: str


_RESTS_ON = (
    "The file and the digest alone show this. That no other place of the release holds the id rests besides on its "
    "members being in order, which a verifier's PASSED report about the same digest says."
)


def check_proof(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The proof, or what prove --json printed of it.")],
    root: Annotated[
        str, typer.Option("--root", metavar="ROOT", help="Whole digest of the root manifest, from elsewhere.")
    ],
    sample_id: Annotated[
        str | None, typer.Option("--sample-id", metavar="ID", help="The sample id that the proof has to be about.")
    ] = None,
) -> Result:
    """Check a proof against a root digest, offline: no store, no key and no network is needed."""
    from verifier.proof import check_proof as check

    digest = full_digest(root)
    try:
        data = _read(file)
        named = _named(data)
        proof = check(data if named is None else _read(named), digest, sample_id)
    except (FormatError, IntegrityError) as err:
        error = {"code": err.code.value, "message": err.message, "context": spelled(err.context)}
        facts = [("code", err.code.value), ("root", digest)]
        return Result(
            data={"valid": False, "error": error}, headline=f"Not valid: {err.message}", facts=facts, status=1
        )
    return _valid(proof, digest)


def _valid(proof: "Proof", root: str) -> Result:
    return Result(
        data={"valid": True, **facts_of(proof, root)},
        headline=f"Valid: {readable(proof.sample_id)}: {asserted(proof).lower()}",
        sentences=[readable(proof.about), _RESTS_ON],
    )


def _named(data: bytes) -> Path | None:
    """The proof that an output of ``prove --json`` names; None for anything else, which has to be a proof.

    Raises:
        InvalidInputError: ``input.no-such-file``.
    """
    try:
        found = msgspec.json.decode(data, type=_Printed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    path = Path(found.proof)
    if not path.is_file():
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE, "the proof that the file names is not there", file=str(path)
        )
    return path


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_RECORD_BYTES + 1)
    except OSError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_NO_SUCH_FILE, "there is no file that can be read", file=str(file)
        ) from err
