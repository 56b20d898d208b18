"""Requests to AWS KMS: the only module that asks it for anything. Source: schemas/SPEC.md#signers

Signatures and data keys are asked for alike: one client a process, one way to ask again, answers as values.
"""

import logging
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore import exceptions as botocore
from botocore.config import Config
from botocore.parsers import ResponseParserError

from shardrel import clock
from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.kms.answers import NO_ANSWER, NO_CREDENTIALS, UNREADABLE, Refusal

_NO_CREDENTIALS = (
    botocore.NoCredentialsError,
    botocore.PartialCredentialsError,
    botocore.CredentialRetrievalError,
    botocore.NoAuthTokenError,
    botocore.TokenRetrievalError,
    botocore.SSOError,
)
# What the client raises of an answer with another shape, or with no base64 where bytes should be.
_UNREADABLE = (ResponseParserError, ValueError, TypeError, AttributeError)
_ASKING: ContextVar[bool] = ContextVar("_ASKING", default=False)


def _tells_no_key(record: logging.LogRecord) -> bool:
    return not _ASKING.get()


# At level DEBUG botocore logs what it sends and what it receives, data keys included.
for _name in ("botocore.endpoint", "botocore.parsers"):
    logging.getLogger(_name).addFilter(_tells_no_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsSettings:
    """How to talk to KMS.

    Attributes:
        attempts: How often one request is sent at most; to ask twice does no harm.
        first_pause: Seconds before the second attempt; doubled each time, up to ``longest_pause``.
    """

    attempts: int = 5
    first_pause: float = 0.2
    longest_pause: float = 3.0
    connect_timeout: float = 5.0
    read_timeout: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsService:
    """KMS in one region. Credentials and an endpoint come from the usual AWS configuration."""

    region: str
    settings: KmsSettings = KmsSettings()
    _clients: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def client(self) -> Any:
        """The client of this process: a forked one would share its connections with its parent.

        Raises:
            InvalidInputError: ``input.key``.
        """
        process = os.getpid()
        if process not in self._clients:
            self._clients[process] = _client(self.region, self.settings)
        return self._clients[process]

    def ask(self, operation: str, wanted: str, **params: Any) -> Mapping[str, Any] | Refusal:
        """The answer to a request, asked again where it may be answered later.

        Args:
            operation: Name of the client's method.
            wanted: The field of bytes that an answer needs to be one.
            params: Of the request.
        """
        answer = self._asked(operation, wanted, params)
        for attempt in range(1, self.settings.attempts):
            if not isinstance(answer, Refusal) or not answer.ask_again:
                break
            pause = min(self.settings.first_pause * 2 ** (attempt - 1), self.settings.longest_pause)
            clock.sleep(pause * (0.5 + clock.jitter() / 2))
            answer = self._asked(operation, wanted, params)
        return answer

    def _asked(self, operation: str, wanted: str, params: Mapping[str, Any]) -> Mapping[str, Any] | Refusal:
        client = self.client
        asking = _ASKING.set(True)
        try:
            answer = getattr(client, operation)(**params)
        except botocore.ClientError as err:
            status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return Refusal(status=status, code=str(err.response.get("Error", {}).get("Code", "")))
        except _NO_CREDENTIALS:
            return Refusal(status=0, code=NO_CREDENTIALS)
        except (botocore.HTTPClientError, botocore.ConnectionError):
            return Refusal(status=0, code=NO_ANSWER)
        except botocore.BotoCoreError as err:
            return Refusal(status=0, code=type(err).__name__)
        except _UNREADABLE:
            return Refusal(status=200, code=UNREADABLE)
        finally:
            _ASKING.reset(asking)
        return answer if _has(answer, wanted) else Refusal(status=200, code=UNREADABLE)


def _has(answer: Any, wanted: str) -> bool:
    found = answer.get(wanted)
    return isinstance(found, bytes) and bool(found)


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
