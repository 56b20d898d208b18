"""Aliases with weights, as the command line says them. Source: schemas/SPEC.md#mixing"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from shardrel.errors import ErrorCode, InvalidInputError

if TYPE_CHECKING:
    from shardrel.records.transition import MixedAlias


def mix_of(aliases: Sequence[str]) -> "tuple[str, tuple[MixedAlias, ...] | None]":
    """The first alias, and all of them with their weights in millionths; None for one alias without a weight.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    from shardrel.records.transition import MixedAlias

    if len(aliases) == 1 and "=" not in aliases[0]:
        return aliases[0], None
    named = [text.partition("=") for text in aliases]
    inputs = tuple(MixedAlias(alias=name, weight=_millionths(text)) for name, _, text in named)
    if len({one.alias for one in inputs}) != len(inputs) or len(inputs) > 255:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a mix names each alias once, and at most 255")
    return inputs[0].alias, inputs


def _millionths(text: str) -> int:
    try:
        weight = Decimal(text) * 1_000_000
    except InvalidOperation:
        weight = Decimal(0)
    if not weight.is_finite() or weight != weight.to_integral_value() or not 1 <= weight <= 1_000_000:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID, "each alias of a mix has a weight from 0.000001 to 1, such as A=0.7", weight=text
        )
    return int(weight)
