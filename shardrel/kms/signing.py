"""A signer whose private key is one of AWS KMS: ECDSA on P-256, or Ed25519. Source: schemas/SPEC.md#signers

The only module that asks KMS for signatures, and beside the S3 adapter the only one that signs with boto3.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config

from shardrel import clock
from shardrel.errors import ErrorCode, InvalidInputError, TrustError
from shardrel.kms.answers import NO_ANSWER, NO_CREDENTIALS, Refusal, as_error
from shardrel.records.policy import PublicKey
from shardrel.trust.keys import Scheme, check_public, verifies

_ARN = re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:(?:key|alias)/([A-Za-z0-9/_-]{1,250})")
_ALGORITHMS: dict[str, Scheme] = {"ECDSA_SHA_256": "ecdsa-sha2-nistp256", "ED25519_SHA_512": "ed25519"}
# What the service takes as it is; of more it wants the digest, which ECDSA allows and Ed25519 does not.
_MOST_RAW = 4096
_NO_CREDENTIALS = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.NoAuthTokenError,
    botocore.TokenRetrievalError,
    botocore.SSOError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsSettings:
    """How to talk to KMS.

    Attributes:
        attempts: How often one request is sent at most; to ask twice for a signature does no harm.
        first_pause: Seconds before the second attempt; doubled each time, up to ``longest_pause``.
    """

    attempts: int = 5
    first_pause: float = 0.2
    longest_pause: float = 3.0
    connect_timeout: float = 5.0
    read_timeout: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsSigner:
    """Signs with a key that never leaves KMS."""

    public: PublicKey
    arn: str
    algorithm: str
    settings: KmsSettings
    client: Any = field(repr=False)

    def sign(self, data: bytes) -> bytes:
        """Signature over exactly these bytes, checked before it is handed out.

        Raises:
            TrustError: ``trust.signer`` when the key cannot sign this, or what came back is no signature of it.
            UnavailableError: ``signer.unavailable``, ``signer.throttled``, ``signer.access-denied``.

        Effects: one Sign, or a few where KMS does not answer.
        """
        asked = {"KeyId": self.arn, "SigningAlgorithm": self.algorithm, **self._message(data)}
        answer = _answered(lambda: self.client.sign(**asked), self.arn, self.settings)
        signature = bytes(answer["Signature"])
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
    chosen = settings or KmsSettings()
    client = _client(found[1], chosen)
    answer = _answered(lambda: client.get_public_key(KeyId=arn), arn, chosen)
    algorithm = next((one for one in _ALGORITHMS if one in answer.get("SigningAlgorithms", ())), None)
    if algorithm is None:
        raise InvalidInputError(ErrorCode.INPUT_KEY, "a KMS key that signs is on P-256, or Ed25519", key=arn)
    public = PublicKey(
        name=name or found[2].replace("/", "-").lstrip("-_")[:128],
        scheme=_ALGORITHMS[algorithm],
        public=bytes(answer["PublicKey"]).hex(),
    )
    return KmsSigner(public=check_public(public), arn=arn, algorithm=algorithm, settings=chosen, client=client)


def _client(region: str, settings: KmsSettings) -> Any:
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        user_agent_extra="shardrel",
    )
    try:
        return boto3.session.Session().client("kms", region_name=region, config=config)
    except (botocore.BotoCoreError, ValueError) as err:
        raise InvalidInputError(
            ErrorCode.INPUT_KEY, "the AWS configuration is not valid", reason=type(err).__name__
        ) from err


def _answered(ask: Callable[[], Any], arn: str, settings: KmsSettings) -> Any:
    """The answer to a request that may be sent again."""
    for attempt in range(1, settings.attempts + 1):
        answer = _asked(ask)
        if not isinstance(answer, Refusal):
            return answer
        if not answer.ask_again or attempt == settings.attempts:
            break
        clock.sleep(min(settings.first_pause * 2 ** (attempt - 1), settings.longest_pause) * (0.5 + clock.jitter() / 2))
    raise as_error(answer, arn)


def _asked(ask: Callable[[], Any]) -> Any:
    """One request: the client's reply, or a Refusal."""
    try:
        return ask()
    except botocore.ClientError as err:
        status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return Refusal(status=status, code=str(err.response.get("Error", {}).get("Code", "")))
    except _NO_CREDENTIALS:
        return Refusal(status=0, code=NO_CREDENTIALS)
    except (botocore.HTTPClientError, botocore.ConnectionError):
        return Refusal(status=0, code=NO_ANSWER)
    except botocore.BotoCoreError as err:
        return Refusal(status=0, code=type(err).__name__)
