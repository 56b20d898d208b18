"""A process that saves in the background and is killed before its commit record has a name."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from shardrel.checkpoint.background import BackgroundSaver
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.save import Saved, save
from shardrel.records.checkpoint import Cut
from shardrel.store.forwarding import ForwardingStore
from shardrel.store.local import LocalStore
from shardrel.trust.keys import from_pem
from tests.support.checkpoints import ORDER, RUN, cut, state
from tests.support.gates import DATASET

T = TypeVar("T")


class Fatal(ForwardingStore):
    """Ends its process by signal 9 where the second checkpoint's record would be installed."""

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        if operation == "create" and key.endswith("/commits/1"):
            os.kill(os.getpid(), signal.SIGKILL)
        return request()


def main(folder: Path) -> None:
    """Save twice."""
    store = Fatal(LocalStore(folder / "store"))
    signer = from_pem("admin", (folder / "key.pem").read_bytes())

    def write(staged: dict[str, Any], at: Cut) -> Saved:
        return save(SoloGroup(), store, staged, dataset=DATASET, run=RUN, cut=at, order=ORDER, signer=signer)

    with BackgroundSaver(write) as background:
        background.start(state(1), cut(1)).result()
        print("first", flush=True)
        print(background.start(state(2), cut(2)).result(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
