"""The process whose system calls are recorded. Source: schemas/SPEC.md#power-loss.

python -m shardrel.lab.power.child: a task on stdin. It tells what it does by marks, one ``write`` each.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from shardrel.lab.power.home import Home, TellingStore, done
from shardrel.lab.power.story import STORY, named


def tell(marks: int, fact: dict[str, str]) -> None:
    """One mark.

    Effects: one write.
    """
    os.write(marks, json.dumps(fact).encode())


def story(folder: Path, marks: int) -> None:
    """Every transaction, once.

    Effects: a home.
    """
    for transaction in STORY:
        transaction.before(_told(folder, marks))
        _transact(transaction.name, folder, marks, None)


def again(folders: list[str], name: str, goal: str, marks: int) -> None:
    """What somebody does whose process was killed: run it again, unless he finds it done.

    Effects: each home goes on.
    """
    for folder in folders:
        _transact(name, Path(folder), marks, goal)


def _transact(name: str, folder: Path, marks: int, goal: str | None) -> None:
    home = _told(folder, marks)
    tell(marks, {"begin": name, "home": folder.name})
    if goal is not None and done(home, goal):
        tell(marks, {"found": name, "home": folder.name})
        return
    named(name).act(home)
    tell(marks, {"end": name, "home": folder.name})


def _told(folder: Path, marks: int) -> Home:
    """A home whose store tells."""
    return Home(folder, TellingStore(folder, lambda fact: tell(marks, {**fact, "home": folder.name})))


def main() -> None:
    """Do the task that stdin names."""
    task: dict[str, Any] = json.loads(sys.stdin.readline())
    marks = os.open(task["marks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    if task["task"] == "story":
        story(Path(task["folder"]), marks)
    else:
        again(task["homes"], task["name"], task["goal"], marks)


if __name__ == "__main__":
    main()
