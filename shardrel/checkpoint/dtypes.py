"""Element types that a checkpoint can hold, without torch. Source: schemas/SPEC.md#checkpoints."""

from types import MappingProxyType

ITEM_BYTES = MappingProxyType(
    {
        "bool": 1,
        "uint8": 1,
        "int8": 1,
        "uint16": 2,
        "int16": 2,
        "uint32": 4,
        "int32": 4,
        "uint64": 8,
        "int64": 8,
        "float8_e4m3fn": 1,
        "float8_e4m3fnuz": 1,
        "float8_e5m2": 1,
        "float8_e5m2fnuz": 1,
        "float16": 2,
        "bfloat16": 2,
        "float32": 4,
        "float64": 8,
        "complex64": 8,
        "complex128": 16,
    }
)
"""Name as torch spells it, and bytes of one element."""
