"""The real Fashion-MNIST, from Debian's package, which is installed where it is absent; that needs root.

Only ``make test-long`` and the benchmarks use it.
"""

import fcntl
import subprocess
import tempfile
from pathlib import Path

from shardrel.cli.drill_crash import DATA


def fashion_mnist() -> Path:
    """The folder of its four files."""
    with (Path(tempfile.gettempdir()) / "shardrel-fashion-mnist.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not DATA.is_dir():
            subprocess.run(["apt-get", "update", "-q"], check=True, stdout=subprocess.DEVNULL)
            command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "dataset-fashion-mnist"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return DATA
