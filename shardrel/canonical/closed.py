"""Which record types exclude by their own rules what canonical JSON refuses. Source: schemas/SPEC.md#canonical-json"""

from functools import lru_cache
from typing import Any

import msgspec.inspect as mi

MAX_INTEGER = 2**53 - 1

_HARMLESS = (mi.NoneType, mi.BoolType, mi.StrType, mi.LiteralType)


@lru_cache(maxsize=256)
def is_closed(kind: Any) -> bool:
    """Whether a value that decoded as ``kind`` holds no float and no integer beyond ±(2^53−1), anywhere."""
    return _closed(mi.type_info(kind), set())


def _closed(info: mi.Type, seen: set[type]) -> bool:
    if isinstance(info, mi.Metadata):
        return _closed(info.type, seen)
    if isinstance(info, mi.IntType):
        return _bounded(info)
    if isinstance(info, mi.StructType):
        if info.cls in seen:
            return True
        seen.add(info.cls)
        return all(_closed(field.type, seen) for field in info.fields)
    if isinstance(info, mi.UnionType):
        return all(_closed(one, seen) for one in info.types)
    if isinstance(info, mi.TupleType):
        return all(_closed(one, seen) for one in info.item_types)
    if isinstance(info, mi.DictType):
        return isinstance(info.key_type, mi.StrType) and _closed(info.value_type, seen)
    if isinstance(info, mi.ListType | mi.VarTupleType):
        return _closed(info.item_type, seen)
    return isinstance(info, _HARMLESS)


def _bounded(info: mi.IntType) -> bool:
    low = info.ge if info.ge is not None else info.gt
    high = info.le if info.le is not None else info.lt
    return low is not None and high is not None and low >= -MAX_INTEGER and high <= MAX_INTEGER
