"""Tensors and values in the archives that ``torch.save`` writes, read without torch. Source: schemas/SPEC.md#checkpoint-exchange."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from shardrel.checkpoint.dtypes import ITEM_BYTES
from shardrel.checkpoint.pickle_data import Elsewhere, Made, Name, Pairs, interpret, meaning
from shardrel.checkpoint.state_tree import MAX_DEPTH
from shardrel.checkpoint.zip_stored import Entry, Read, check, entries
from shardrel.errors import ErrorCode, InvalidInputError

MAX_PICKLE = 1 << 24
MAX_PARTS = 4_000_000
MAX_OCTETS = 1 << 28

_ORDERED = Name("collections", "OrderedDict")
_BYTES = Name("_codecs", "encode")
_TYPED = Name("torch._utils", "_rebuild_tensor_v2")
_UNTYPED = Name("torch._utils", "_rebuild_tensor_v3")
_UNTYPED_STORAGE = Name("torch.storage", "UntypedStorage")

DTYPES = MappingProxyType({Name("torch", dtype): dtype for dtype in ITEM_BYTES})
"""Element types by what torch pickles them as."""

_STORAGES = MappingProxyType(
    {
        Name("torch", f"{kind}Storage"): dtype
        for kind, dtype in {
            "Double": "float64",
            "Float": "float32",
            "Half": "float16",
            "BFloat16": "bfloat16",
            "Long": "int64",
            "Int": "int32",
            "Short": "int16",
            "Char": "int8",
            "Byte": "uint8",
            "Bool": "bool",
            "ComplexDouble": "complex128",
            "ComplexFloat": "complex64",
        }.items()
    }
)

_TENSOR_NAMES = frozenset({_ORDERED, _TYPED, _UNTYPED, _UNTYPED_STORAGE, *DTYPES, *_STORAGES})
_VALUE_NAMES = frozenset({_ORDERED, _BYTES})


@dataclass(slots=True)
class Budget:
    """What all values of an import may have together: a pickle of a few bytes can hold one list or string very often.

    Attributes:
        left: Parts.
        octets: Bytes of strings, bytes and numbers, about.
    """

    left: int = MAX_PARTS
    octets: int = MAX_OCTETS

    def take(self, value: Any) -> bool:
        """Whether one part more is within the bounds."""
        self.left -= 1
        if isinstance(value, str | bytes):
            self.octets -= len(value)
        elif isinstance(value, int):
            self.octets -= value.bit_length() // 8
        return self.left >= 0 and self.octets >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """Where a tensor's elements are; distances are in elements.

    Attributes:
        start: First byte of its storage, in the archive.
        offset: Its first element, in the storage.
        conjugate: Whether the stored elements are the conjugates of its own; ``negative`` whether they have the other
            sign.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    offset: int
    conjugate: bool
    negative: bool


def read_tensor(read: Read, size: int) -> StoredTensor:
    """The one tensor of an archive, whose bytes were held against the archive's sum.

    Raises:
        InvalidInputError: ``input.corrupt``, ``input.pickle-not-data``; ``checkpoint.unsupported-state``: big-endian.
    """
    found = entries(read, size)
    made = interpret(_pickle(read, found), _TENSOR_NAMES)
    try:
        tensor = _tensor(made, found)
    except (ValueError, TypeError, LookupError, AttributeError) as err:
        raise _corrupt() from err
    check(read, found[_storage_key(made)])
    return tensor


def read_value(read: Read, size: int, budget: Budget) -> Any:
    """The one value of an archive: numbers, strings, bytes, lists, tuples and dicts of them.

    Args:
        read: Bytes of the archive.
        size: How many it has.
        budget: What is left of it after this value.

    Raises:
        InvalidInputError: ``input.corrupt``; ``input.pickle-not-data``: it is of another kind.
    """
    value = interpret(_pickle(read, entries(read, size)), _VALUE_NAMES)
    try:
        return _Plain(budget).of(value, 0)
    except InvalidInputError:
        raise
    except (ValueError, TypeError) as err:
        raise _corrupt() from err


def _pickle(read: Read, found: dict[str, Entry]) -> bytes:
    entry = found.get("data.pkl")
    if entry is None or entry.size > MAX_PICKLE:
        raise _corrupt()
    order = found.get("byteorder")
    if order is not None and read(order.start, min(order.size, 8)) != b"little":
        raise InvalidInputError(
            ErrorCode.CHECKPOINT_STATE_TYPE, "a tensor was stored with its bytes in the other order"
        )
    check(read, entry)
    return read(entry.start, entry.size)


def _tensor(made: Any, found: dict[str, Entry]) -> StoredTensor:
    if not isinstance(made, Made) or made.of not in (_TYPED, _UNTYPED) or made.state is not None:
        raise ValueError("tensor")
    storage, offset, shape, strides, _, hooks, *more = made.arguments
    if not isinstance(hooks, Made) or hooks.of != _ORDERED or hooks.pairs.items:
        raise ValueError("hooks")
    dtype, stored = _elements(made.of, storage.key, more)
    entry = found[_storage_key(made)]
    if entry.size != stored * ITEM_BYTES[dtype] or not _inside(offset, shape, strides, stored):
        raise ValueError("storage")
    marks = _marks(more[0].items if more else [])
    return StoredTensor(
        dtype=dtype,
        shape=shape,
        strides=strides,
        start=entry.start,
        offset=offset,
        conjugate="conj" in marks,
        negative="neg" in marks,
    )


def _marks(items: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    if any(key not in ("conj", "neg") or value is not True for key, value in items):
        raise ValueError("marks")
    return frozenset(key for key, _ in items)


def _storage_key(made: Any) -> str:
    place = made.arguments[0]
    if not isinstance(place, Elsewhere):
        raise ValueError("storage")
    return f"data/{place.key[2]}"


def _elements(of: Name, place: tuple[Any, ...], more: list[Any]) -> tuple[str, int]:
    """Element type and number of elements of a storage."""
    kind, storage, key, _, number = place
    if kind != "storage" or not isinstance(key, str) or type(number) is not int or number < 0:
        raise ValueError("storage")
    if of == _TYPED:
        return meaning(_STORAGES, storage), number
    dtype = meaning(DTYPES, more.pop(0))
    if storage != _UNTYPED_STORAGE or number % ITEM_BYTES[dtype]:
        raise ValueError("storage")
    return dtype, number // ITEM_BYTES[dtype]


def _inside(offset: Any, shape: Any, strides: Any, stored: int) -> bool:
    """Whether all elements are in the storage, and are no more than it has: a step of zero makes much of little."""
    numbers = (offset, *shape, *strides)
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        return False
    if any(type(number) is not int or number < 0 for number in numbers):
        return False
    if 0 in shape:
        return True
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return last < stored and prod(shape) <= stored


class _Plain:
    """Walks a value once, and not without end."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def of(self, value: Any, depth: int) -> Any:
        self._spend(value, depth)
        if value is None or type(value) in (bool, int, float, str, bytes):
            return value
        if isinstance(value, list):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return tuple(self.of(item, depth + 1) for item in value)
        if isinstance(value, Made):
            return self._made(value, depth)
        return self._dict(value, depth)

    def _spend(self, value: Any, depth: int) -> None:
        if not self._budget.take(value) or depth > MAX_DEPTH:
            raise InvalidInputError(
                ErrorCode.INPUT_PICKLE, "pickled values are too many or too large, or nested too deeply"
            )

    def _made(self, made: Made, depth: int) -> Any:
        if made.state is None and made.of == _ORDERED and not made.arguments:
            return self._dict(made.pairs, depth)
        if made.state is None and made.of == _BYTES and not made.pairs.items:
            return self.of(_encoded(made.arguments), depth)
        raise ValueError("value")

    def _dict(self, pairs: Any, depth: int) -> dict[Any, Any]:
        if not isinstance(pairs, Pairs):
            raise ValueError("value")
        found: dict[Any, Any] = {}
        for key, value in pairs.items:
            if key is not None and type(key) not in (bool, int, float, str, bytes):
                raise _unsupported_key()
            self._spend(key, depth)
            found[key] = self.of(value, depth + 1)
        if len(found) != len(pairs.items):
            raise ValueError("a key stands twice")
        return found


def _encoded(arguments: Sequence[Any]) -> bytes:
    text, encoding = arguments
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("bytes")
    return text.encode("latin1")


def _unsupported_key() -> InvalidInputError:
    return InvalidInputError(ErrorCode.CHECKPOINT_STATE_TYPE, "a key of a dict is null, bool, int or string")


def _corrupt() -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_CORRUPT, "the file holds something that torch.save does not write")
