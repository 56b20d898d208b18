"""A signer whose private key is one of AWS KMS: ECDSA on P-256, or Ed25519. Source: schemas/SPEC.md#signers"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardrel.errors import ErrorCode, InvalidInputError, TrustError
from shardrel.kms.answers import SIGNING, Refusal, as_error
from shardrel.kms.service import KmsService, KmsSettings
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import Scheme, check_public, verifies

_ARN = re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:(?:key|alias)/([A-Za-z0-9/_-]{1,250})")
_ALGORITHMS: dict[str, Scheme] = {"ECDSA_SHA_256": "ecdsa-sha2-nistp256", "ED25519_SHA_512": "ed25519"}
# What the service takes as it is; of more it wants the digest, which ECDSA allows and Ed25519 does not.
_MOST_RAW = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsSigner:
    """Signs with a key that never leaves KMS."""

    public: PublicKey
    arn: str
    algorithm: str
    service: KmsService

    def sign(self, data: bytes) -> bytes:
        """Signature over exactly these bytes, checked before it is handed out.

        Raises:
            TrustError: ``trust.signer`` when the key cannot sign this, or what came back is no signature of it.
            UnavailableError: ``signer.unavailable``, ``signer.throttled``, ``signer.access-denied``.

        Effects: one Sign, or a few where KMS does not answer.
        """
        asked = {"KeyId": self.arn, "SigningAlgorithm": self.algorithm, **self._message(data)}
        signature: bytes = _answered(self.service, self.arn, "sign", "Signature", asked)["Signature"]
        if not verifies(self.public, signature, data):
            raise TrustError(ErrorCode.TRUST_SIGNER, "what the KMS gave back is no signature by its key", key=self.arn)
        return signature

    def _message(self, data: bytes) -> dict[str, object]:
        if len(data) <= _MOST_RAW:
            return {"Message": data, "MessageType": "RAW"}
        if self.algorithm != "ECDSA_SHA_256":
            raise TrustError(
                ErrorCode.TRUST_SIGNER,
                f"the KMS signs at most {_MOST_RAW} bytes with an Ed25519 key; use one on P-256",
                key=self.arn,
                size=len(data),
            )
        return {"Message": hashlib.sha256(data).digest(), "MessageType": "DIGEST"}


def kms_signer(arn: str, *, name: str | None = None, settings: KmsSettings | None = None) -> KmsSigner:
    """The signer of a KMS key. Credentials and a KMS endpoint come from the usual AWS configuration.

    Args:
        arn: Of the key, or of an alias; what is signed counts for the key that it means now.
        name: What people call the key; without one, the end of the ARN.
        settings: How to talk to KMS.

    Raises:
        InvalidInputError: ``input.key`` when it is no such ARN, there is no such key, or it is of another kind.
        TrustError: ``trust.signer``.
        UnavailableError: As ``KmsSigner.sign``.

    Effects: one GetPublicKey.
    """
    found = _ARN.fullmatch(arn)
    if found is None:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "a KMS key is named by an ARN: arn:aws:kms:REGION:ACCOUNT:key/ID (or alias/NAME)"
        )
    service = KmsService(region=found[1], settings=settings or KmsSettings())
    answer = _answered(service, arn, "get_public_key", "PublicKey", {"KeyId": arn})
    offered = answer.get("SigningAlgorithms") or ()
    algorithm = next((one for one in _ALGORITHMS if one in offered), None)
    if algorithm is None:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a KMS key that signs is on P-256, or Ed25519", key=arn)
    public = PublicKey(
        name=name or found[2].replace("/", "-").lstrip("-_")[:128],
        scheme=_ALGORITHMS[algorithm],
        public=answer["PublicKey"].hex(),
    )
    return KmsSigner(public=check_public(public), arn=arn, algorithm=algorithm, service=service)


def _answered(
    service: KmsService, arn: str, operation: str, wanted: str, asked: Mapping[str, Any]
) -> Mapping[str, Any]:
    answer = service.ask(operation, wanted, **asked)
    if isinstance(answer, Refusal):
        raise as_error(answer, arn, SIGNING)
    return answer
