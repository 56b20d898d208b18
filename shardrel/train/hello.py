"""Are the processes of a job of one kind? The first thing that ranks say to each other. Source: schemas/SPEC.md#runs.

What ranks of mixed versions say must be readable by all of them, so this stays a flat JSON object of strings, in which
unknown names are no error.
"""

import json
from collections.abc import Mapping, Sequence

import shardrel
from shardrel.data.order import ORDER_FUNCTION
from shardrel.errors import ErrorCode
from shardrel.train.agreement import Disagreed, odd_ones

PROTOCOL = "train.v2"
"""Of the messages between ranks, and so of everything behind this one."""

_VERSIONS = ("protocol", "library", "order")
_ASKED = ("dataset", "run", "settings")


def hello(dataset: str, run: str, settings: str) -> bytes:
    """What a rank says of itself.

    Args:
        dataset: The gate that it was told.
        run: The run that it was told.
        settings: Digest of everything else that all ranks must be told alike.
    """
    versions = {"protocol": PROTOCOL, "library": shardrel.__version__, "order": ORDER_FUNCTION}
    return json.dumps({**versions, "dataset": dataset, "run": run, "settings": settings}, sort_keys=True).encode()


def judge_hellos(hellos: Sequence[bytes]) -> Disagreed | None:
    """Who is of another kind than most; of two equal halves, than the coordinator's."""
    said = [_read(one) for one in hellos]
    for code, names in ((ErrorCode.RUN_VERSION, _VERSIONS), (ErrorCode.RUN_ROOT_DISAGREEMENT, _ASKED)):
        for name in names:
            other = odd_ones([one.get(name, "") for one in said])
            if other:
                return Disagreed(code=code, field=name, ranks=other)
    return None


def _read(one: bytes) -> Mapping[str, str]:
    try:
        said = json.loads(one)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
