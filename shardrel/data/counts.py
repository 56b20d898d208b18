"""What caches and datasets count, so that a rank can show it for all of its processes. Source: schemas/SPEC.md#watching."""

import threading
from typing import Literal

import numpy as np
import numpy.typing as npt

Counted = Literal["corrupt", "fetched", "decoded", "samples"]
"""Cache entries set aside, bytes from the store, shards decoded, samples prepared."""

COUNTED: tuple[Counted, ...] = ("corrupt", "fetched", "decoded", "samples")
"""In the order of the numbers."""

Numbers = npt.NDArray[np.int64]


class Counts:
    """Numbers that the threads of one process add to.

    Args:
        numbers: Where they are, for memory that another process reads; None for memory of its own.
    """

    def __init__(self, numbers: Numbers | None = None) -> None:
        self._numbers = np.zeros(len(COUNTED), np.int64) if numbers is None else numbers
        self._lock = threading.Lock()

    def add(self, name: Counted, amount: int = 1) -> None:
        """Count something."""
        with self._lock:
            self._numbers[COUNTED.index(name)] += amount

    def get(self, name: Counted) -> int:
        """What was counted so far."""
        return int(self._numbers[COUNTED.index(name)])

    def __reduce__(self) -> tuple[type["Counts"], tuple[()]]:
        """In another process it begins at nothing: what was counted here is shown here."""
        return Counts, ()
