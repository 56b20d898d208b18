"""The first thing that ranks say: versions first, then what they were told."""

import json
from typing import Any

import pytest

from shardrel.errors import ErrorCode
from shardrel.train.agreement import Disagreed
from shardrel.train.hello import hello, judge_hellos

OURS = hello("data", "run-1", "sha256:" + "0" * 64)


def other(**change: Any) -> bytes:
    return json.dumps({**json.loads(OURS), **change}).encode()


def test_ranks_of_one_kind_are_accepted() -> None:
    assert judge_hellos([OURS] * 3) is None
    assert judge_hellos([other(later="something")] * 2 + [OURS]) is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocol": "train.v1"}, ErrorCode.RUN_VERSION),
        ({"library": "0.0.9"}, ErrorCode.RUN_VERSION),
        ({"order": "global-shuffle.v9"}, ErrorCode.RUN_VERSION),
        ({"dataset": "other"}, ErrorCode.RUN_ROOT_DISAGREEMENT),
        ({"run": "run-2"}, ErrorCode.RUN_ROOT_DISAGREEMENT),
        ({"settings": "sha256:" + "1" * 64}, ErrorCode.RUN_ROOT_DISAGREEMENT),
    ],
)
def test_the_odd_one_is_guilty_the_coordinator_too(change: dict[str, str], code: ErrorCode) -> None:
    field = next(iter(change))
    assert judge_hellos([OURS, OURS, other(**change)]) == Disagreed(code=code, field=field, ranks=(2,))
    assert judge_hellos([other(**change), OURS, OURS]) == Disagreed(code=code, field=field, ranks=(0,))
    assert judge_hellos([OURS, other(**change)]) == Disagreed(code=code, field=field, ranks=(1,))


@pytest.mark.parametrize("said", [b"", b"\xff", b"[]", b"+{}"])
def test_what_is_no_hello_is_of_another_version(said: bytes) -> None:
    verdict = judge_hellos([OURS, OURS, said])
    assert verdict == Disagreed(code=ErrorCode.RUN_VERSION, field="protocol", ranks=(2,))
