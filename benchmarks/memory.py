"""Peak memory of a verification in a process of its own, on a release and on one ten times larger."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.inputs import write_ipc
from benchmarks.release import declare, place, publish_once, verify_once

RECORDS = 50_000
# Three ranges of sample ids and more shards than threads: all that can be in work at one time is.
SHARDS = 12


def peaks() -> dict[str, object]:
    """Peak resident MiB at 1 and at 10 times, and their ratio."""
    one, ten = (_peak(times) for times in (1, 10))
    return {"ratio": round(ten / one, 3), "one_mib": one, "ten_mib": ten}


def _peak(times: int) -> int:
    with tempfile.TemporaryDirectory(prefix="shardrel-bench-") as name:
        folder = Path(name)
        write_ipc(folder / "source.arrow", "small", SHARDS * times, RECORDS)
        at = place(folder / "store", folder / "keys")
        snapshot = declare(at, folder / "source.arrow", None)
        root = publish_once(at, snapshot, folder / "source.arrow", SHARDS * times).root
        command = [sys.executable, "-m", "benchmarks.memory", str(folder), root]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return int(json.loads(done.stdout)["peak_kib"]) // 1024


def _own_peak() -> int:
    """Highest resident KiB of this program; ``ru_maxrss`` begins with that of the process which started it."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    verify_once(place(Path(sys.argv[1]) / "store", Path(sys.argv[1]) / "keys"), sys.argv[2])
    print(json.dumps({"peak_kib": _own_peak()}))
