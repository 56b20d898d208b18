"""What a pickle says, as data. Nothing is imported, called or unpickled. Source: schemas/SPEC.md#checkpoint-exchange.

A pickle is a program for a stack machine. This one runs the operations that build numbers, strings, tuples, lists and
dicts; what would name a class becomes a ``Name``, what would call one becomes a ``Made``. Whoever asked looks at those
and decides what they stand for. Operations and names outside of closed lists end it.
"""

import pickletools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from shardrel.errors import ErrorCode, InvalidInputError

Meaning = TypeVar("Meaning")

MAX_OPERATIONS = 12_000_000
MAX_STACK = 100_000
MAX_OPEN = 1_000
"""What torch writes for the largest checkpoint that a manifest can hold stays below; memory grows with operations."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict's items in their order. Keys are not hashed, and may stand twice."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Made:
    """What a pickle would call: a class or function with its arguments, and the state that is then set.

    Attributes:
        pairs: Items that are then put into it.
    """

    of: Name
    arguments: tuple[Any, ...]
    state: Any = None
    pairs: Pairs = field(default_factory=Pairs)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A persistent id: what it stands for is not in the pickle."""

    key: Any


class _Mark:
    pass


_MARK = _Mark()


def meaning(names: Mapping[Name, Meaning], value: Any) -> Meaning:
    """What a name stands for. Only a name is looked up: to hash tuples in tuples without end would end the process.

    Raises:
        ValueError: It is no name.
        KeyError: No such name.
    """
    if not isinstance(value, Name):
        raise ValueError("name")
    return names[value]


def interpret(data: bytes, names: Collection[Name]) -> Any:
    """The value of a pickle of protocol 2 to 5, in which only these names stand.

    Memory is proportional to the pickle, and shared values stay shared: whoever walks them has to bound the walk.

    Raises:
        InvalidInputError: ``input.pickle-not-data``: an operation or a name that is not on the lists, or too many;
            ``input.corrupt``: not a whole pickle.
    """
    machine = _Machine(names)
    stopped = -1
    for count, (operation, argument, position) in enumerate(_operations(data)):
        if operation == "STOP":
            stopped = position
            break
        act = _ACTIONS.get(operation)
        if act is None:
            raise _not_data(f"operation {operation}")
        if count >= MAX_OPERATIONS or len(machine.stack) > MAX_STACK or machine.open > MAX_OPEN:
            raise _not_data("more than a checkpoint's")
        act(machine, argument)
    if stopped != len(data) - 1 or len(machine.stack) != 1 or machine.open:
        raise _corrupt()
    return machine.pop()


def _operations(data: bytes) -> Iterator[tuple[str, Any, int]]:
    try:
        for operation, argument, position in pickletools.genops(data):
            yield operation.name, argument, position or 0
    except ValueError as err:
        raise _corrupt() from err


def _not_data(what: str) -> InvalidInputError:
    return InvalidInputError(
        ErrorCode.INPUT_PICKLE, f"a pickle asks for something else than data, so it is not read: {what}", what=what
    )


def _corrupt() -> InvalidInputError:
    return InvalidInputError(ErrorCode.INPUT_CORRUPT, "the file holds a pickle that is not whole")


class _Machine:
    def __init__(self, names: Collection[Name]) -> None:
        self.stack: list[Any] = []
        self.open = 0
        self._memo: dict[int, Any] = {}
        self._names = names

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise _corrupt()
        return self.stack.pop()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: Any) -> None:
        self.open += 1
        self.stack.append(_MARK)

    def popped_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if value is _MARK:
                self.open -= 1
                items.reverse()
                return items
            items.append(value)
        raise _corrupt()

    def tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(items)))

    def top(self) -> Any:
        value = self.pop()
        self.push(value)
        return value

    def memoize(self, index: int | None) -> None:
        self._memo[len(self._memo) if index is None else index] = self.top()

    def recall(self, index: int) -> None:
        if index not in self._memo:
            raise _corrupt()
        self.push(self._memo[index])

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise _corrupt()
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if len(items) % 2 or not isinstance(target, Pairs | Made):
            raise _corrupt()
        pairs = target.pairs if isinstance(target, Made) else target
        pairs.items.extend(zip(items[::2], items[1::2], strict=True))

    def one_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise _corrupt()
        found = Name(module, name)
        if found not in self._names:
            raise _not_data(f"name {str(found)[:100]!a}")
        self.push(found)

    def stack_name(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)

    def make(self, _: Any) -> None:
        arguments, of = self.pop(), self.pop()
        if not isinstance(of, Name) or not isinstance(arguments, tuple):
            raise _corrupt()
        self.push(Made(of, arguments))

    def build(self, _: Any) -> None:
        state, target = self.pop(), self.top()
        if not isinstance(target, Made) or target.state is not None:
            raise _corrupt()
        target.state = state


_Action = Callable[[_Machine, Any], None]
_PUSHED = "BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8"

_ACTIONS: MappingProxyType[str, _Action] = MappingProxyType(
    {
        **dict.fromkeys(_PUSHED.split(), _Machine.push),
        "PROTO": lambda _, __: None,
        "FRAME": lambda _, __: None,
        "MARK": _Machine.mark,
        "NONE": lambda machine, _: machine.push(None),
        "NEWTRUE": lambda machine, _: machine.push(True),
        "NEWFALSE": lambda machine, _: machine.push(False),
        "EMPTY_TUPLE": lambda machine, _: machine.push(()),
        "TUPLE1": lambda machine, _: machine.tuple_of(1),
        "TUPLE2": lambda machine, _: machine.tuple_of(2),
        "TUPLE3": lambda machine, _: machine.tuple_of(3),
        "TUPLE": lambda machine, _: machine.push(tuple(machine.popped_to_mark())),
        "EMPTY_LIST": lambda machine, _: machine.push([]),
        "APPEND": lambda machine, _: machine.append([machine.pop()]),
        "APPENDS": lambda machine, _: machine.append(machine.popped_to_mark()),
        "EMPTY_DICT": lambda machine, _: machine.push(Pairs()),
        "SETITEM": _Machine.one_item,
        "SETITEMS": lambda machine, _: machine.set_items(machine.popped_to_mark()),
        "MEMOIZE": lambda machine, _: machine.memoize(None),
        "BINPUT": _Machine.memoize,
        "LONG_BINPUT": _Machine.memoize,
        "BINGET": _Machine.recall,
        "LONG_BINGET": _Machine.recall,
        "GLOBAL": lambda machine, both: machine.name(*both.split(" ", 1)),
        "STACK_GLOBAL": _Machine.stack_name,
        "REDUCE": _Machine.make,
        "NEWOBJ": _Machine.make,
        "BUILD": _Machine.build,
        "BINPERSID": lambda machine, _: machine.push(Elsewhere(machine.pop())),
    }
)
