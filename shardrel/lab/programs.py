"""The publisher and the verifier as a drill uses them, handed in by the command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardrel.gate.view import GateView
from shardrel.store.port import Store
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The other two programs, which this one never imports.

    Attributes:
        release: Declare and publish source files that have the columns ``id`` and ``split``; the root.
        verify: Verify a root at the gate's fences of now, and attach the signed report.
    """

    release: Callable[[Store, str, Sequence[str], Signer], str]
    verify: Callable[[Store, str, GateView, Signer], None]
