"""Aliases with weights on the command line."""

import pytest

from shardrel.cli.mix import mix_of
from shardrel.errors import ErrorCode, InvalidInputError


def test_one_alias_without_a_weight_is_no_mix() -> None:
    assert mix_of(["prod"]) == ("prod", None)


def test_weights_are_exact_millionths() -> None:
    first, inputs = mix_of(["A=0.7", "B=0.3", "C=0.000001", "D=1"])
    assert (first, inputs and [(one.alias, one.weight) for one in inputs]) == (
        "A",
        [("A", 700_000), ("B", 300_000), ("C", 1), ("D", 1_000_000)],
    )


@pytest.mark.parametrize(
    "aliases",
    [
        ["A", "B"],
        ["A=0.5", "B"],
        ["A=0"],
        ["A=1.1"],
        ["A=0.0000001"],
        ["A=x"],
        ["A=nan"],
        ["A=inf"],
        ["A=0.5", "A=0.5"],
    ],
)
def test_other_weights_are_refused(aliases: list[str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        mix_of(aliases)
    assert caught.value.code == ErrorCode.INPUT_INVALID
