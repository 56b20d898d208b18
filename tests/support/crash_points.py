"""Kill a command of the product at each of its store operations, run it again, and look at what is there.

    python -m tests.support.crash_points FOLDER EVERY OFFSET keep|forget [STEP...]

The driver imports everything once, uses none of it, and forks: each command runs in a child of its own,
through the product's own ``main``, on a copy of the store, behind a store that kills the process before or
after its k-th operation. With ``forget`` the operation ids that the command kept are lost too: then it must
not come out right. Of the points of each step it takes every EVERY-th, from OFFSET on. It writes one
JSON line a step. Nothing of this is part of the product: the store is put behind ``open_store`` from here.
"""

import io
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import shardrel.store.open as stores
from shardrel.cli.main import main as shardrel
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.port import Store
from tests.support.crash_job import ACTIONS
from tests.support.crash_story import DATASET, PENDING, STORE, STORY, Step, end_state, write_inputs

T = TypeVar("T")


class DyingStore(ForwardingStore):
    """Passes everything on and counts; around the k-th operation the process is killed."""

    def __init__(self, inner: Store, k: int, *, after: bool) -> None:
        super().__init__(inner)
        self._k, self._after = k, after
        self._lock = threading.Lock()
        self.count = 0

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        with self._lock:
            self.count += 1
            mine = self.count == self._k
        if mine and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = request()
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a child ended: its exit status, or minus the signal; what it left under ``answer``."""

    status: int
    answer: Any


def threads() -> list[str]:
    """Threads beside this one, but for that of jemalloc, which is made for being forked."""
    tasks = Path("/proc/self/task")
    names = {task.name: (task / "comm").read_text().strip() for task in tasks.iterdir()}
    names.pop(str(os.getpid()))
    return [name for name in names.values() if name != "jemalloc_bg_thd"]


def in_child(folder: Path, action: Callable[[], Any]) -> Ended:
    """Run an action in a fork of this process, in a folder; its answer comes back as JSON."""
    assert not threads(), "the driver has threads, whose locks a fork may find held for ever"
    place = folder / "answer.json"
    place.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _act_and_leave(folder, place, action)
    _, wait_status = os.waitpid(child, 0)
    answer = json.loads(place.read_text()) if place.exists() else None
    return Ended(status=os.waitstatus_to_exitcode(wait_status), answer=answer)


def _act_and_leave(folder: Path, place: Path, action: Callable[[], Any]) -> NoReturn:
    """Whatever happens, the child must not go on with what its parent was about to do."""
    status = 99
    try:
        os.chdir(folder)
        place.write_text(json.dumps(action()))
        status = 0
    except BaseException:  # noqa: BLE001 (its end is the end of the process, which is what the parent looks at)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def command(line: list[str], k: int = 0, *, after: bool = False) -> dict[str, Any]:
    """Run a command line, or what a job does, in this process; its status, what it printed, and how many store operations there were."""
    opened: list[DyingStore] = []
    real = stores.open_store

    def open_store(url: str, *, endpoint_url: str | None = None, quoted_tokens: bool = True) -> DyingStore:
        opened.append(DyingStore(real(url, endpoint_url=endpoint_url, quoted_tokens=quoted_tokens), k, after=after))
        return opened[-1]

    stores.open_store = open_store
    printed = io.StringIO()
    try:
        if line[0] == "job":
            status = 0
            printed.write(json.dumps(ACTIONS[line[1]](open_store(STORE), DATASET, line[2])))
        else:
            with redirect_stdout(printed):
                status = shardrel(["--dataset", DATASET, *line, "--json"])
    finally:
        stores.open_store = real
    assert len(opened) <= 1, "a verb opens one store"
    text = printed.getvalue()
    return {
        "status": status,
        "printed": json.loads(text) if text else None,
        "operations": sum(one.count for one in opened),
    }


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and last change of every create-only object of the store."""
    store = folder / ".shardrel" / "store"
    found = {}
    for path in store.rglob("*"):
        name = path.relative_to(store).as_posix()
        written_once = name.startswith(("objects/", "attestations/", "runs/")) or "/operations/" in name
        if path.is_file() and written_once:
            found[name] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def try_point(
    base: Path, scratch: Path, line: list[str], k: int, *, after: bool, forget: bool, stays: set[str]
) -> tuple[dict[str, Any], list[str]]:
    """Kill the command at one point and run it again; the end state, and create-only objects that changed.

    Those in ``stays`` may not be gone either.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(base, scratch)
    killed = in_child(scratch, lambda: command(line, k, after=after))
    if killed.status != -signal.SIGKILL:
        raise AssertionError(f"{line} was not killed at {k}: {killed}")
    if forget:
        shutil.rmtree(scratch / PENDING, ignore_errors=True)
    left = files(scratch)
    again = in_child(scratch, lambda: {**command(line), "end": end_state(Path())})
    now = files(scratch)
    changed = sorted(name for name in left if now.get(name, left[name]) != left[name])
    return again.answer or {"status": again.status}, changed + sorted((stays & left.keys()) - now.keys())


def points_of(operations: int) -> list[tuple[int, bool]]:
    """Each operation, before and after."""
    return [(k, after) for k in range(1, operations + 1) for after in (False, True)]


def try_step(step: Step, folder: Path, every: int, offset: int, *, forget: bool) -> dict[str, Any]:
    """Go one step of the story, and before that through points of it on copies."""
    base, scratch, plain = folder / "base", folder / "scratch", folder / "plain"
    shutil.rmtree(plain, ignore_errors=True)
    said = json.loads((folder / "said.json").read_text())
    step.prepare(base, said)
    shutil.copytree(base, plain)
    line = step.line(said)
    undisturbed = in_child(plain, lambda: {**command(line), "end": end_state(Path())})
    assert undisturbed.status == 0, step.name
    wanted = undisturbed.answer
    assert wanted["status"] == step.status, (step.name, wanted)
    stays = set(files(plain)) if line[0] == "gc" else set(files(base)) | set(files(plain))
    points = points_of(wanted["operations"])
    chosen = points[offset % every :: every] if step.crashes else []
    wrong = []
    for k, after in chosen:
        got, rewritten = try_point(base, scratch, line, k, after=after, forget=forget, stays=stays)
        same = got.get("status") == step.status and got.get("end") == wanted["end"]
        if not same or rewritten:
            wrong.append({"k": k, "after": after, "got": got, "wanted": wanted, "rewritten": rewritten})
    shutil.rmtree(base)
    plain.rename(base)
    (folder / "said.json").write_text(json.dumps({**said, step.name: wanted["printed"]}))
    return {"step": step.name, "points": len(points), "tried": len(chosen), "wrong": wrong}


def main() -> None:
    """Go through the story."""
    folder, every, offset = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    base = folder / "base"
    base.mkdir(parents=True)
    write_inputs(base)
    (folder / "said.json").write_text("{}")
    forget, wanted = sys.argv[4] == "forget", sys.argv[5:]
    for number, step in enumerate(STORY):
        skip = bool(wanted) and step.name not in wanted
        done = try_step(step if not skip else step.uncrashed(), folder, every, offset + number, forget=forget)
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
