"""A draft: a transition that goes from hand to hand until enough keys have signed it. Source: schemas/SPEC.md#draft

It is a DSSE envelope without the signatures of whoever drafted it, who makes them anew at the end. A transition is
about the state of one moment: once the gate has moved, another draft takes its place, and is signed by nobody yet.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from shardrel import clock
from shardrel.canonical import json
from shardrel.errors import ErrorCode, InvalidInputError, UnavailableError, unwritable
from shardrel.records.policy import PublicKey
from shardrel.records.report import TRANSITION_PAYLOAD
from shardrel.records.transition import Transition
from shardrel.trust.envelope import MAX_ENVELOPE_BYTES, pae, peek, signatures_of
from shardrel.trust.keys import key_id, verifies
from shardrel.trust.signer import Signer

_HEAD = pae(TRANSITION_PAYLOAD, b"").removesuffix(b"0 ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is in the file: the transition as it is signed, and signatures by key id, which is a hint."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def transition(self) -> Transition:
        """What it would do.

        Raises:
            FormatError: The payload is no transition.
        """
        return json.decode(self.payload, Transition)

    def signature_by(self, key: PublicKey) -> bytes | None:
        """The signature of a key; None where it did not sign."""
        message = pae(TRANSITION_PAYLOAD, self.payload)
        return next((one for _, one in self.signatures if verifies(key, one, message)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSigner:
    """Signs with what a draft holds of a key that is elsewhere."""

    public: PublicKey
    path: Path

    def sign(self, data: bytes) -> bytes:
        """The key's signature, where its holder made one over exactly these bytes.

        Raises:
            UnavailableError: ``signer.awaited`` where he did not.
            InvalidInputError: ``input.invalid`` for anything but a transition; and as ``read_draft``.

        Effects: where the draft is of another transition, or there is none, the file is written anew.
        """
        payload = _payload(data)
        draft = read_draft(self.path)
        if draft is None or draft.payload != payload:
            write_draft(self.path, Draft(payload=_drafted_now(payload), signatures=()))
            draft = None
        signature = None if draft is None else draft.signature_by(self.public)
        if signature is None:
            raise UnavailableError(
                ErrorCode.SIGNER_AWAITED,
                f"{self.path} waits for signatures: let others run shardrel keys sign, then run the same command again",
                key=self.public.name,
            )
        return signature


def read_draft(path: Path) -> Draft | None:
    """The draft in a file; None where there is no file.

    Raises:
        InvalidInputError: ``input.invalid`` when it cannot be read.
        FormatError, TrustError: It is no envelope of a transition.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ENVELOPE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} can't be read", path=str(path)) from err
    draft = Draft(payload=peek(data, TRANSITION_PAYLOAD), signatures=tuple(signatures_of(data)))
    json.decode(draft.payload, Transition)
    return draft


def sign_draft(path: Path, signers: Iterable[Signer]) -> Draft:
    """Add signatures to a draft; a key that signed it already is not asked again.

    Raises:
        InvalidInputError: ``input.no-such-file``; and as ``read_draft``.

    Effects: replaces the file.
    """
    draft = read_draft(path)
    if draft is None:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} is not there", path=str(path))
    message = pae(TRANSITION_PAYLOAD, draft.payload)
    fresh = [(key_id(one.public), one.sign(message)) for one in signers if draft.signature_by(one.public) is None]
    signed = Draft(payload=draft.payload, signatures=(*draft.signatures, *fresh))
    write_draft(path, signed)
    return signed


def write_draft(path: Path, draft: Draft) -> None:
    """Put a draft in the place of a file, whole.

    Raises:
        InvalidInputError: ``input.invalid`` when it cannot be written, or something else than a plain file is there.
    """
    if path.exists() and not path.is_file():
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{path} is no plain file", path=str(path))
    scratch = path.with_name(f".{path.name}.{clock.fresh_id()}")
    try:
        scratch.write_bytes(_encoded(draft.payload, draft.signatures))
        scratch.replace(path)
    except OSError as err:
        scratch.unlink(missing_ok=True)
        raise unwritable(path, err) from err


def _encoded(payload: bytes, signatures: Sequence[tuple[str, bytes]]) -> bytes:
    return json.encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": TRANSITION_PAYLOAD,
            "signatures": [{"keyid": name, "sig": base64.b64encode(one).decode()} for name, one in signatures],
        }
    )


def _drafted_now(payload: bytes) -> bytes:
    """The transition with the time of now, which whoever runs the command again takes from the draft."""
    return json.encode(replace(json.decode(payload, Transition), recorded_at=clock.now_utc()))


def _payload(data: bytes) -> bytes:
    """The transition in what is to be signed."""
    size, space, payload = data.removeprefix(_HEAD).partition(b" ")
    if not data.startswith(_HEAD) or not space or pae(TRANSITION_PAYLOAD, payload) != data or not size.isdigit():
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "only transitions are drafted and signed elsewhere")
    return payload
