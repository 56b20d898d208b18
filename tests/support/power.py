"""A local store's writes as a small trace, and what has to hold after a loss of power in the middle of them.

python -m tests.support.power        # records tests/lab/local-store.strace anew; needs strace
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from shardrel.lab.power.disk import Disk, Image
from shardrel.lab.power.folder import Rebuilder
from shardrel.lab.power.operations import Mark, Operation, Sync
from shardrel.lab.power.reading import TRACED, read_operations
from shardrel.lab.power.states import Key, crash_states
from shardrel.store.layout import gate_key, object_key, run_key
from shardrel.store.local import LocalStore
from shardrel.store.port import ObjectKey, Written

TRACE = Path(__file__).resolve().parents[1] / "lab" / "local-store.strace"
PLACE = Path("/tmp/power-loss")
HOME, MARKS = PLACE / "home", PLACE / "marks"

BYTES = b"bytes of an object, " * 100
OBJECT = object_key("sha256:" + "ab" * 32)
RECORD, STATE = run_key("run"), gate_key("data")
WRITES: tuple[tuple[ObjectKey, bytes], ...] = ((OBJECT, BYTES), (RECORD, b"record"), (STATE, b"1"), (STATE, b"2"))


def write(store: LocalStore, told: Callable[[int], None]) -> None:
    """All writes; those that are there already are made again. ``told`` hears how many are done."""
    for number, (key, data) in enumerate(WRITES, start=1):
        found = store.read(key, max_bytes=1 << 20)
        if key != STATE:
            store.create(key, data)
        elif found is None or found.data < data:
            assert isinstance(store.swap(key, data, None if found is None else found.token), Written)
        told(number)


def recorded() -> list[Operation]:
    """The trace that is committed."""
    return read_operations(TRACE.read_text().splitlines(), str(HOME), str(MARKS))


def states(operations: list[Operation]) -> dict[Key, tuple[Image, int]]:
    """Every state after a loss of power, with how many writes were acknowledged by then."""
    disk, told = Disk({}), 0
    found: dict[Key, tuple[Image, int]] = {}
    for operation in operations:
        disk.apply(operation)
        told = int(operation.text) if isinstance(operation, Mark) else told
        found.update({key: (image, told) for key, image in crash_states(disk).items()})
    return found


def wrong(scratch: Path, found: dict[Key, tuple[Image, int]]) -> Iterator[str]:
    """What does not hold, in any of the states."""
    rebuilder, folder = Rebuilder(scratch), scratch / "state"
    for image, told in found.values():
        rebuilder.build(image, folder)
        yield from _wrong(LocalStore(folder / "store"), told)


def _wrong(store: LocalStore, told: int) -> Iterator[str]:
    before = _read(store)
    for key, data in dict(WRITES[:told]).items():
        found = before[key]
        if found is None:
            yield f"lost {key}"
        elif key == STATE and found < data:
            yield "went back"
    for key in before:
        if before[key] not in (None, *(data for other, data in WRITES if other == key)):
            yield f"torn {key}"
    write(LocalStore(Path(store.url.removeprefix("file://"))), lambda number: None)
    if _read(store) != dict(WRITES):
        yield "another end"


def _read(store: LocalStore) -> dict[ObjectKey, bytes | None]:
    found = {key: store.read(key, max_bytes=1 << 20) for key, _ in WRITES}
    return {key: None if stored is None else stored.data for key, stored in found.items()}


def forgetting(operations: list[Operation], *, files: bool, below: str = "") -> list[Operation]:
    """The trace of a store that makes less durable: bytes of files, or names in folders."""
    disk, made = Disk({}), list[Operation]()
    for operation in operations:
        left_out = isinstance(operation, Sync) and operation.path.startswith(below)
        mark = left_out and disk.is_file(operation.path) == files  # type: ignore[union-attr]
        made.append(Mark(_last(made)) if mark else operation)
        disk.apply(operation)
    return made


def _last(made: list[Operation]) -> str:
    return next((one.text for one in reversed(made) if isinstance(one, Mark)), "0")


def main() -> None:
    """Record, or be recorded."""
    if sys.argv[1:] == ["write"]:
        marks = os.open(MARKS, os.O_WRONLY | os.O_CREAT)

        def tell(number: int) -> None:
            os.write(marks, str(number).encode())

        write(LocalStore(HOME / "store"), tell)
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    HOME.mkdir(parents=True)
    command = ["strace", "-f", "-y", "-xx", "-qq", "-s", "1000000", "-e", "signal=none", "-e"]
    command += [f"trace={','.join(TRACED)}", "-o", str(PLACE / "trace"), sys.executable, "-m", __spec__.name, "write"]
    root = str(Path(__file__).resolve().parents[2])
    subprocess.run(command, check=True, cwd="/", env={**os.environ, "PYTHONPATH": root})
    ours = "".join(f"\\x{byte:02x}" for byte in str(PLACE).encode())
    lines = [line for line in (PLACE / "trace").read_text().splitlines(keepends=True) if ours in line]
    TRACE.write_text("".join(lines))
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    main()
