"""Tells the story: shows each command, runs it for real, and insists that it went as told."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


STORE = "store"
KEYS = "keys"


class NotAsTold(Exception):
    """A step of the story went differently."""


def insist(condition: bool, message: str) -> None:
    """Stop the story with a sentence unless the condition holds."""
    if not condition:
        raise NotAsTold(message)


def environment() -> dict[str, str]:
    """Environment of every process of the story: this checkout, one thread a process, no colour codes."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Settings of the person who runs the demo must not lead it to another store.
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHARDREL_")}
    return {**mine, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrator:
    """Runs ``shardrel`` on one store, with one folder of keys."""

    folder: Path
    store: str = STORE
    quiet: bool = False

    def chapter(self, title: str) -> None:
        """Begin a part of the story."""
        self.say(f"\n== {title}")

    def say(self, text: str) -> None:
        """A line of the story."""
        if not self.quiet:
            print(text, flush=True)

    def setting(self) -> str:
        """A line for a shell in which the commands of the story can be repeated."""
        return f"cd {shlex.quote(str(self.folder))}; export SHARDREL_STORE={STORE} SHARDREL_KEYS={KEYS}"

    def on(self, store: str) -> "Narrator":
        """The same story on another store."""
        return replace(self, store=store)

    def hushed(self) -> "Narrator":
        """The same without words."""
        return replace(self, quiet=True)

    def shardrel(self, *arguments: str, expect: int = 0, show: tuple[str, ...] = ()) -> dict[str, Any]:
        """Run a command, check its exit status and show some of its answer.

        Returns:
            The JSON object that it printed.
        """
        elsewhere = [] if self.store == STORE else ["--store", self.store]
        self.say(f"$ shardrel {shlex.join([*elsewhere, *arguments])}")
        command = [sys.executable, "-m", "shardrel.cli", "--store", self.store, "--keys", KEYS, "--json", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, check=False, timeout=600
        )
        told = f"`shardrel {shlex.join(arguments)}` ended with {done.returncode} and not with {expect}"
        insist(done.returncode == expect, f"{told}\n{done.stdout}{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        for name in show:
            self.say(f"    {name}: {_shown(answer[name])}")
        return answer

    def refused(self, *arguments: str, code: str) -> dict[str, Any]:
        """Run a command that the gate must refuse with this code."""
        answer = self.shardrel(*arguments, expect=1)
        error: dict[str, Any] = answer["error"]
        insist(error["code"] == code, f"refused with {error['code']} and not with {code}: {error['message']}")
        self.say(f"    refused: {error['code']}: {error['message']}")
        return error


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
