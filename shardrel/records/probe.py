"""The verdict of a probe, as ``init`` keeps it beside the gate. Source: schemas/SPEC.md#store"""

from typing import Literal

from shardrel.records.fields import Record


class KeptProbe(Record, tag_field="schema", tag="training.shard.probe.v1", frozen=True, kw_only=True):
    """What a probe found, for every verb that writes.

    Attributes:
        failed: Required checks that failed.
        advisory: Advisory checks that failed.
        quoted_tokens: Whether the store knows ETags in conditions in their quotes, as the standard says.
        probed_on: Time for people; no rule reads it.
    """

    verdict: Literal["PASSED", "FAILED"]
    failed: tuple[str, ...]
    advisory: tuple[str, ...]
    quoted_tokens: bool
    probed_on: str
