"""Real processes in a gloo group, forked of one that has torch loaded: a test of all world sizes starts them once.

``python -m tests.support.gloo MODULE:FUNCTION WORLD FOLDER`` runs ``FUNCTION(rank, world, folder)`` in each; the parent
ends with 0 when all did.
"""

import importlib
import os
import subprocess
import sys
import traceback
from datetime import timedelta
from pathlib import Path

PATIENCE = timedelta(seconds=60)
ROOT = Path(__file__).parent.parent.parent


def run_gloo(function: str, world: int, folder: Path, *, timeout: float = 120.0) -> str:
    """Run a function of this repository on every rank of a gloo group; what the ranks printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.gloo", function, str(world), str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
    return done.stdout


def _child(function: str, rank: int, world: int, folder: Path) -> int:
    import torch.distributed as dist

    try:
        meeting = (folder / "rendezvous").as_uri()
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=PATIENCE)
        module, name = function.split(":")
        getattr(importlib.import_module(module), name)(rank, world, folder)
        dist.barrier()
    except BaseException:  # noqa: BLE001 (whatever it is: this process's status tells)
        traceback.print_exc()
        return 1
    return 0


def _main(function: str, world: int, folder: Path) -> int:
    import torch
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel

    importlib.import_module(function.split(":")[0])
    torch.set_num_threads(1)
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            status = _child(function, rank, world, folder)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
