"""What the model of a disk promises, whatever is done to it."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.power.contents import Contents, Edit, variants
from shardrel.lab.power.disk import Disk, Image
from shardrel.lab.power.operations import (
    Create,
    Link,
    MakeFolder,
    Operation,
    Rename,
    Resize,
    Sync,
    Unlink,
    Write,
)
from shardrel.lab.power.states import Bounds, Key, crash_states, key

FOLDERS = ("", "a", "b", "a/c")
NAMES = ("x", "y")
FILES = tuple(f"{folder}/{name}" if folder else name for folder in FOLDERS for name in NAMES)
EVERYTHING = Bounds(states=1 << 14, contents=1 << 12)

file = st.sampled_from(FILES)
node = st.sampled_from([*FILES, *FOLDERS])
operation = st.one_of(
    st.builds(MakeFolder, st.sampled_from(FOLDERS[1:])),
    st.builds(Create, file),
    st.builds(Write, file, st.sampled_from([0, 1, 600]), st.sampled_from([b"1", b"22", b"3" * 700])),
    st.builds(Resize, file, st.sampled_from([0, 1, 513])),
    st.builds(Sync, node),
    st.builds(Link, file, file),
    st.builds(Rename, file, file),
    st.builds(Unlink, file),
)
histories = st.lists(operation, max_size=14)


def happens(disk: Disk, one: Operation) -> bool:
    """Do it as a system does: not where it would be refused."""
    there = disk.visible
    match one:
        case MakeFolder(path=path):
            fine = path not in there and parent(path, there)
        case Create(path=path):
            fine = path not in there and parent(path, there)
        case Link(source=source, target=target):
            fine = there.get(source) is not None and target not in there and parent(target, there)
        case Rename(source=source, target=target):
            fine = there.get(source) is not None and source != target and parent(target, there)
        case Sync(path=path):
            fine = path == "" or path in there
        case Write(path=path) | Resize(path=path) | Unlink(path=path):
            fine = there.get(path) is not None
        case _:
            fine = False
    if fine:
        disk.apply(one)
    return fine


def parent(path: str, there: Image) -> bool:
    folder = path.rpartition("/")[0]
    return folder == "" or folder in there


def done(operations: Sequence[Operation]) -> tuple[Disk, list[Operation]]:
    disk = Disk({})
    return disk, [one for one in operations if happens(disk, one)]


def exact(disk: Disk) -> dict[Key, Image] | None:
    """All states, where they are few enough to be made without bounds."""
    files = [variants(one, EVERYTHING.contents) for one in disk.contents.values() if one.edits]
    size = 2 ** len(disk.pending) * math.prod(map(len, files))
    return crash_states(disk, EVERYTHING) if size <= EVERYTHING.states else None


@settings(max_examples=200)
@given(histories)
def test_what_a_process_sees_is_one_of_the_states(operations: list[Operation]) -> None:
    disk, _ = done(operations)
    assert key(disk.visible) in crash_states(disk)


@settings(max_examples=100)
@given(histories)
def test_there_is_one_state_once_everything_is_durable(operations: list[Operation]) -> None:
    disk, _ = done(operations)
    for path in ["", *disk.visible]:
        disk.apply(Sync(path))
    assert list(crash_states(disk)) == [key(disk.visible)]


@settings(max_examples=100)
@given(histories, st.data())
def test_whoever_makes_less_durable_has_more_states(operations: list[Operation], data: st.DataObject) -> None:
    disk, happened = done(operations)
    syncs = [at for at, one in enumerate(happened) if isinstance(one, Sync)]
    left_out = data.draw(st.sampled_from([None, *syncs]))
    lazy = Disk({})
    for at, one in enumerate(happened):
        if at != left_out:
            lazy.apply(one)
    more, fewer = exact(lazy), exact(disk)
    if more is not None and fewer is not None:
        assert fewer.keys() <= more.keys()


@settings(max_examples=100)
@given(histories, histories)
def test_what_is_durable_stays_until_something_else_is_done_to_it(
    before: list[Operation], after: list[Operation]
) -> None:
    """A file whose bytes are durable, and every folder above it, is in every state."""
    disk, _ = done(before)
    disk.apply(MakeFolder("kept"))
    disk.apply(Create("kept/file"))
    disk.apply(Write("kept/file", 0, b"bytes"))
    for path in ("kept/file", "kept", ""):
        disk.apply(Sync(path))
    for one in after:
        happens(disk, one)
    assert all(image["kept/file"] == b"bytes" for image in crash_states(disk).values())


@settings(max_examples=100)
@given(histories)
def test_bounds_make_fewer_states_and_no_other_ones(operations: list[Operation]) -> None:
    disk, _ = done(operations)
    everything = exact(disk)
    if everything is not None:
        assert crash_states(disk, Bounds(states=4, contents=EVERYTHING.contents)).keys() <= everything.keys()


@example(durable=b"\0", edits=[(0, None), (1, None)], limit=16)
@settings(max_examples=200)
@given(
    st.binary(max_size=1200),
    st.lists(st.tuples(st.integers(0, 1100), st.none() | st.binary(min_size=1, max_size=700)), max_size=3),
    st.sampled_from([16, 1 << 12]),
)
def test_a_file_holds_old_or_new_bytes_or_zeros(
    durable: bytes, edits: list[tuple[int, bytes | None]], limit: int
) -> None:
    contents = Contents(durable)
    for number, (offset, data) in enumerate(edits):
        contents = contents.edited(Edit(number, offset, data))
    found = variants(contents, limit)
    assert found[-1] == contents.now
    assert contents.durable in (found[0], contents.now)
    assert len(set(found)) == len(found)
    versions = [version.ljust(2048, b"\0") for version in contents.versions]
    assert all(data[at] in {version[at] for version in versions} for data in found for at in range(len(data)))
    assert contents.synced(len(edits)) == Contents(contents.now)


def test_an_operation_on_nothing_is_no_trace() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Disk({}).apply(Write("absent", 0, b"1"))
    assert caught.value.code == ErrorCode.INPUT_CORRUPT
