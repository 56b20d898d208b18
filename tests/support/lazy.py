"""A second opinion on power loss, on LazyFS: a file system that drops on demand what was not synced.

    python -m tests.support.lazy MOUNT FAULTS COMPLETED ROUNDS [--without-fsync]

No test runs this: LazyFS has to be built (docs/crash-lab.md). In each round the story of ``shardrel drill power-loss``
is killed at a place drawn by chance, LazyFS drops its cache, and what was acknowledged is looked for; then the story
goes on to its end. With ``--without-fsync`` the killed process makes nothing durable: then something has to be lost.
LazyFS drops bytes of files, and no names.
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from shardrel.digest import digest_of
from shardrel.lab.power.home import Home, at, summary
from shardrel.lab.power.marks import NOTHING, Told
from shardrel.lab.power.story import STORY
from shardrel.store.layout import object_digest
from shardrel.store.port import ObjectKey

ROOT = Path(__file__).resolve().parents[2]
CHILD = "shardrel.lab.power.child"
WITHOUT = f"import os, runpy; os.fsync = lambda held: None; runpy.run_module({CHILD!r}, run_name='__main__')"
LONGEST = 17_000
"""Bytes of all marks of a story."""


def drop(faults: Path, completed: Path) -> None:
    """Lose what was not synced, and wait until it is lost."""
    answers = os.open(completed, os.O_RDONLY | os.O_NONBLOCK)
    faults.write_text("lazyfs::clear-cache\n")
    for _ in range(500):
        time.sleep(0.02)
        try:
            if os.read(answers, 4096):
                break
        except BlockingIOError:
            continue
    else:
        raise AssertionError("LazyFS does not answer")
    os.close(answers)


def killed_story(home: Path, marks: Path, size: int, program: list[str]) -> None:
    """Begin the story, and kill it once its marks have this size."""
    task = {"task": "story", "folder": str(home), "marks": str(marks)}
    story = subprocess.Popen([sys.executable, *program], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert story.stdin is not None
    story.stdin.write(json.dumps(task).encode() + b"\n")
    story.stdin.close()
    while story.poll() is None and (not marks.exists() or marks.stat().st_size < size):
        time.sleep(0.0005)
    story.kill()
    story.wait()


def heard(marks: Path) -> tuple[Told, list[str]]:
    """What was acknowledged, and the transactions that ended."""
    told, ended, text = NOTHING, [], marks.read_text()
    while text:
        fact, length = json.JSONDecoder().raw_decode(text)
        told, text = told.hearing(text[:length]), text[length:]
        ended += [fact["end"]] if "end" in fact else []
    return told, ended


def wrong(home: Home, told: Told) -> list[str]:
    """Acknowledged keys that are lost, objects that are torn."""
    found = []
    for key, digest in told.created.items():
        stored = home.store.read(ObjectKey(key), max_bytes=1 << 28)
        if stored is None or digest_of(stored.data) != digest:
            found.append(f"lost {key}")
    for key in map(str, home.store.list("objects/")):
        stored = home.store.read(ObjectKey(key), max_bytes=1 << 28)
        if stored is None or digest_of(stored.data) != object_digest(key):
            found.append(f"torn {key}")
    return found


def main() -> None:
    """All rounds."""
    mount, faults, completed, rounds = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    program = ["-c", WITHOUT] if "--without-fsync" in sys.argv else ["-m", CHILD]
    bad = 0
    for _ in range(rounds):
        folder, marks = mount / f"home-{time.time_ns()}", faults.with_name(f"marks-{time.time_ns()}")
        folder.mkdir()
        killed_story(folder, marks, random.randrange(LONGEST), program)
        drop(faults, completed)
        told, ended = heard(marks)
        problems = wrong(at(folder), told)
        bad += bool(problems)
        if not problems:
            for transaction in [one for one in STORY if one.name not in ended]:
                transaction.before(at(folder))
                transaction.act(at(folder))
            summary(at(folder))
        print(f"killed behind {ended[-1:] or 'nothing'}: {len(told.created)} keys acknowledged, {len(problems)} wrong")
    print(f"{bad} of {rounds} rounds wrong")


if __name__ == "__main__":
    main()
