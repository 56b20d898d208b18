"""A rendezvous backend for torchrun whose nodes may come and go. Source: schemas/SPEC.md#runs.

It is torch's c10d backend with one switch. By default an agent of torchrun (seen with torch 2.13) keeps one store for its
workers over all restarts, and tells its address only in the round in which it made it: a node that joins later waits
for an address that nobody writes, and nodes that outlive the first one keep the address of a store that is gone.
Without that sharing rank 0 hosts a store for each start, and its address is told in each round.
"""

import os
from collections.abc import Callable
from typing import Any

_NOT_SHARED = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def backend() -> Callable[[Any], Any]:
    """What torchrun asks for when it is told ``--rdzv-backend=shardrel``.

    Effects: none; only an agent that uses the backend sets torch's switch, for itself.
    """
    return _create


def _create(parameters: Any) -> Any:
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

    class _Backend(C10dRendezvousBackend):
        @property
        def name(self) -> str:
            return str(parameters.backend)

    os.environ[_NOT_SHARED] = "1"
    _, store = create_backend(parameters)
    return create_handler(store, _Backend(store, parameters.run_id), parameters)
