"""Every committed envelope is read, or refused, as it says."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shardrel.canonical import json as canonical
from shardrel.errors import ShardrelError
from shardrel.records.policy import PublicKey
from shardrel.records.report import Approval
from shardrel.trust.envelope import unseal
from shardrel.trust.keys import key_id
from shardrel.trust.statement import read_statement

FOLDER = Path(__file__).parents[2] / "fixtures" / "envelopes"
KEYS = msgspec.json.decode((FOLDER / "keys.json").read_bytes(), type=dict[str, PublicKey])
CASES = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "keys")


def opened(case: dict[str, Any]) -> list[str]:
    """Names of the keys whose signatures count, once everything that the case asks for was checked."""
    found = unseal(case["envelope"].encode(), case["payloadType"], [KEYS[name] for name in case["keys"]])
    if case["root"] is not None:
        _, predicate = read_statement(found.payload, case["root"], case["predicateType"])
        canonical.decode(predicate, Approval)
    return [name for name in case["keys"] if key_id(KEYS[name]) in found.key_ids]


@pytest.mark.parametrize("name", CASES)
def test_an_envelope_is_read_or_refused_as_it_says(name: str) -> None:
    case = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    if case["code"] is None:
        assert opened(case) == case["signedBy"]
        return
    with pytest.raises(ShardrelError) as caught:
        opened(case)
    assert caught.value.code == case["code"]


def test_there_are_good_and_bad_ones() -> None:
    good = [name for name in CASES if name.startswith("good")]
    assert len(good) > 8
    assert len(CASES) - len(good) > 25
