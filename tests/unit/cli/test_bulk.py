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


# What Arrow holds and has given back, after much was freed and a while has passed.
_HELD = (
    "from shardrel.cli.bulk import for_bulk\n{prepare}\n"
    "import pyarrow as pa, time\n"
    "def resident(): return int(open('/proc/self/statm').read().split()[1])\n"
    "before = resident()\n"
    "many = [pa.allocate_buffer(1 << 20) for _ in range(200)]\n"
    "for one in many: memoryview(one).cast('B')[::4096] = bytes(256)\n"
    "held = resident() - before\n"
    "del many, one\n"
    "time.sleep(0.2); pa.default_memory_pool().release_unused()\n"
    "print((resident() - before) / held > 0.5)"
)


def test_freed_memory_is_kept_unless_the_environment_says_otherwise() -> None:
    assert run(_HELD.format(prepare="for_bulk()")) == ["True"]
    assert run(_HELD.format(prepare="")) == ["False"]
    assert run(_HELD.format(prepare="for_bulk()"), MIMALLOC_PURGE_DELAY="0") == ["False"]
