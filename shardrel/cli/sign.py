"""``shardrel keys sign``: a signature for a transition that somebody else drafted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import the_key
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.trust.draft import Draft


def sign(
    settings: Settings,
    draft: Annotated[
        Path, typer.Argument(metavar="DRAFT", help="The file that --key draft:FILE of a verb has written.")
    ],
    show: Annotated[bool, typer.Option("--show", help="Say what it would do, and sign nothing.")] = False,
) -> Result:
    """Sign a transition that somebody else drafted, with the key that --key names."""
    from shardrel.trust.draft import read_draft, sign_draft

    if show:
        found = read_draft(draft)
        if found is None:
            raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{draft} is not there", path=str(draft))
        return _shown(draft, found, f"{draft} would do this")
    if not settings.key:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "name the key that signs with --key")
    signed = sign_draft(draft, [the_key(settings, reference) for reference in settings.key])
    return _shown(draft, signed, f"{draft} is signed")


def _shown(path: Path, draft: "Draft", headline: str) -> Result:
    import msgspec

    made = draft.transition
    request = msgspec.to_builtins(made.request)
    return Result(
        data={
            "file": str(path),
            "dataset": made.dataset,
            "gateId": made.gate_id,
            "sequence": made.sequence,
            "parent": made.parent,
            "role": made.role,
            "request": request,
            "signatures": [name for name, _ in draft.signatures],
        },
        headline=headline,
        facts=[
            ("gate", f"{made.gate_id} of {made.dataset}"),
            ("follows", made.parent),
            ("as", made.role),
            *((name, value) for name, value in request.items()),
            ("signatures", len(draft.signatures)),
        ],
    )
