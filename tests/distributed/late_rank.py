"""Rank 1 comes to the second barrier when the others have given up; every rank prints how it ended.

The script initialises torch.distributed itself, as one does that had it before.
"""

import json
import sys

import torch.distributed as dist

from shardrel import clock
from shardrel.checkpoint.group import together
from shardrel.errors import RunFailedError
from shardrel.train.group import connect


def main() -> None:
    dist.init_process_group("gloo")
    with connect(timeout_s=3) as group:
        together(group, lambda: b"here")
        if group.rank == 1:
            clock.sleep(5)
        try:
            together(group, lambda: b"here")
        except RunFailedError as err:
            facts = {"rank": group.rank, "code": err.code, "ranks": err.context["ranks"]}
            sys.stdout.write(json.dumps({"event": "failed", **facts}) + "\n")  # in one write: ranks share the output
        # The agent ends a job whose first rank has left; the last one is waited for.
        clock.sleep(0 if group.rank == 1 else 4)
    dist.destroy_process_group()
    sys.exit(0)


if __name__ == "__main__":
    main()
