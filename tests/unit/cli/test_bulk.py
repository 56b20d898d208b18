"""What verbs that move a lot of data do to their process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PURGES = "MIMALLOC_PURGE_DELAY"


def run(code: str, **environment: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if name != _PURGES}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=_ROOT, check=True, env=kept | environment
    )
    return done.stdout.split()


@pytest.mark.parametrize("verb", ["publish", "verify", "snapshot"])
def test_a_verb_prepares_before_it_loads_arrow(verb: str) -> None:
    """A first line that fails stands for the rest of the verb."""
    code = (
        f"import inspect, sys; from shardrel.cli import {verb} as module\n"
        "def stop(): print('pyarrow' in sys.modules, 'numpy' in sys.modules); raise SystemExit(0)\n"
        "module.for_bulk = stop\n"
        f"verb = module.{verb}\n"
        "needed = [name for name, one in inspect.signature(verb).parameters.items() if one.default is one.empty]\n"
        "verb(**dict.fromkeys(needed))"
    )
    assert run(code) == ["False", "False"]


_SEEN = (
    "import os, sys; from shardrel.cli.bulk import for_bulk; before = sys.getswitchinterval(); for_bulk()\n"
    "print(os.environ['MIMALLOC_PURGE_DELAY'], sys.getswitchinterval() < before)"
)


def test_what_the_environment_says_of_freed_memory_is_left() -> None:
    assert run(_SEEN) == ["10000", "True"]
    assert run(_SEEN, MIMALLOC_PURGE_DELAY="0") == ["0", "True"]
