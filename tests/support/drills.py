"""Scratch stores for tests of drills."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from shardrel.cli.drill_tools import the_tools
from shardrel.drills.catalogue import chosen
from shardrel.drills.conduct import conduct
from shardrel.drills.drill import Outcome
from shardrel.drills.scratch import Scratch, scratch_keys
from shardrel.store.memory import MemoryStore
from shardrel.store.port import Store
from tests.support.publishing import NOW


def a_scratch(folder: Path, store: Store | None = None, **tools: Any) -> Scratch:
    """A fresh scratch, by default in memory; ``tools`` replaces some of the other programs' functions."""
    return Scratch(
        store=store or MemoryStore(),
        folder=folder,
        keys=scratch_keys(),
        tools=replace(the_tools(), **tools),
        now=lambda: NOW,
    )


def outcome_of(name: str, scratch: Scratch) -> Outcome:
    """What one drill shows."""
    [outcome] = conduct(chosen(name), scratch, lambda done, total: None)
    return outcome
