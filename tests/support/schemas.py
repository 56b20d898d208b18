"""Record schemas for hypothesis, edits of them, and a flat view to compare by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

from hypothesis import strategies as st
from msgspec.structs import replace

from shardrel.records.schema import (
    BinaryType,
    BoolType,
    DateType,
    DecimalType,
    Extension,
    Field,
    FixedBinaryType,
    FloatType,
    IntType,
    ListType,
    MapType,
    NullType,
    RecordSchema,
    Slot,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)

Place = Union[Field, Slot]  # noqa: UP007
NAMES = ("a", "b", "element", "key", "é")

LEAVES = st.sampled_from(
    [
        NullType(), BoolType(), IntType(bits=8, signed=True), IntType(bits=32, signed=True), IntType(bits=64, signed=True),
        IntType(bits=32, signed=False), FloatType(bits=32), FloatType(bits=64), DecimalType(precision=10, scale=2),
        DecimalType(precision=12, scale=2), DecimalType(precision=12, scale=4), DateType(unit="day"), DateType(unit="ms"),
        TimeType(unit="s"), TimeType(unit="ns"), TimestampType(unit="us", zone=None), TimestampType(unit="us", zone="UTC"),
        StringType(), BinaryType(), FixedBinaryType(size=4),
    ]
)  # fmt: skip
EXTENSIONS = st.sampled_from([None, None, None, Extension(name="arrow.uuid", parameters="")])


def _fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Field, ...]]:
    def named(names: list[str]) -> st.SearchStrategy[tuple[Field, ...]]:
        return st.tuples(
            *(
                st.builds(Field, name=st.just(n), nullable=st.booleans(), type=types, extension=EXTENSIONS)
                for n in names
            )
        )

    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).flatmap(named)


def _inside(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    slot = st.builds(Slot, nullable=st.booleans(), type=types, extension=EXTENSIONS)
    key = st.builds(Slot, nullable=st.just(False), type=LEAVES)
    return st.one_of(
        st.builds(ListType, element=slot, size=st.sampled_from([None, 2, 3])),
        st.builds(StructType, fields=_fields(types)),
        st.builds(MapType, key=key, value=slot),
    )


TYPES = st.recursive(LEAVES, _inside, max_leaves=6)
SCHEMAS = st.builds(RecordSchema, fields=_fields(TYPES))


def places(schema: RecordSchema) -> dict[tuple[str, ...], Place]:
    """Every place by its path."""
    found: dict[tuple[str, ...], Place] = {}

    def into(at: tuple[str, ...], place: Place) -> None:
        found[at] = place
        for name, child in children(place):
            into((*at, name), child)

    for field in schema.fields:
        into((field.name,), field)
    return found


def children(place: Place) -> list[tuple[str, Place]]:
    """What is directly inside of a place."""
    match place.type:
        case StructType(fields=fields):
            return [(field.name, field) for field in fields]
        case ListType(element=element):
            return [("element", element)]
        case MapType(key=key, value=value):
            return [("key", key), ("value", value)]
    return []


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the fields of one container: the columns (empty path), or those of a struct."""

    path: tuple[str, ...]
    change: Callable[[tuple[Field, ...]], tuple[Field, ...]]

    def on(self, schema: RecordSchema) -> RecordSchema:
        """The schema with this edit."""
        return replace(schema, fields=self._fields((), schema.fields))

    def _fields(self, at: tuple[str, ...], fields: tuple[Field, ...]) -> tuple[Field, ...]:
        inner = tuple(self._place((*at, field.name), field) for field in fields)
        return self.change(inner) if at == self.path else inner

    def _place(self, at: tuple[str, ...], place: Any) -> Any:
        match place.type:
            case StructType(fields=fields):
                return replace(place, type=StructType(fields=self._fields(at, fields)))
            case ListType(element=element, size=size):
                return replace(place, type=ListType(element=self._place((*at, "element"), element), size=size))
            case MapType(key=key, value=value):
                kind = MapType(key=self._place((*at, "key"), key), value=self._place((*at, "value"), value))
                return replace(place, type=kind)
        return place


def containers(schema: RecordSchema) -> list[tuple[str, ...]]:
    """Paths of the columns and of every struct."""
    return [(), *(path for path, place in places(schema).items() if isinstance(place.type, StructType))]


@st.composite
def edited(draw: st.DrawFn, schema: RecordSchema) -> RecordSchema:
    """The schema after a few edits anywhere: fields dropped, moved, replaced or put in, places made null or not."""
    for _ in range(draw(st.integers(0, 4))):
        path = draw(st.sampled_from(containers(schema)))
        drawn = draw(_fields(TYPES))
        kind = draw(st.sampled_from(["drop", "move", "put", "retype", "null"]))
        schema = Edit(path, lambda fields, kind=kind, drawn=drawn: _one(kind, fields, drawn)).on(schema)  # type: ignore[misc]
    return schema


def _one(kind: str, fields: tuple[Field, ...], drawn: tuple[Field, ...]) -> tuple[Field, ...]:
    first, *rest = fields
    if kind == "drop":
        return tuple(rest) or fields
    if kind == "move":
        return (*rest, first)
    if kind == "put":
        new = [field for field in drawn if field.name not in {one.name for one in fields}]
        return (*fields[:1], *new, *fields[1:])
    if kind == "retype":
        return (replace(first, type=drawn[0].type), *rest)
    return (replace(first, nullable=not first.nullable), *rest)
