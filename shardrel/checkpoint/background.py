"""Save in the background, without a word about success before the gate has admitted. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from shardrel.checkpoint.save import Saved
from shardrel.checkpoint.staging import Staging
from shardrel.clock import monotonic
from shardrel.errors import OutcomeUnknownError, ShardrelError
from shardrel.records.checkpoint import Cut

Outcome = Literal["pending", "admitted", "refused", "failed", "unknown"]
Write = Callable[[dict[str, Any], Cut], Saved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Seconds that training stood still for a save: until the one before had ended, and for the copy."""

    waiting: float
    copying: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.waiting + self.copying


class Pending:
    """A save on its way. It says ``admitted`` only when the gate did; a process that dies before leaves nothing selected."""

    def __init__(self, future: Future[Saved], cut: Cut, blocked: Blocked) -> None:
        self._future = future
        self._looked = False
        self.cut = cut
        self.blocked = blocked

    def outcome(self) -> Outcome:
        """How it stands, without waiting; ``unknown``: the next save or restore finds out, and finishes it."""
        if not self._future.done():
            return "pending"
        err = self._future.exception()
        if err is None:
            return "admitted"
        return _outcome(err)

    def result(self) -> Saved:
        """Wait until the gate has answered.

        Raises:
            RunFailedError: What ``save`` raises.
        """
        self._looked = True
        return self._future.result()

    def settle(self) -> None:
        """Wait, and raise what nobody has been told of.

        Raises:
            RunFailedError: What ``save`` raises, unless ``result`` has raised it.
        """
        err = self._future.exception()
        if err is not None and not self._looked:
            self._looked = True
            raise err


def _outcome(err: BaseException) -> Outcome:
    if isinstance(err, OutcomeUnknownError) or getattr(err, "exit_status", None) == OutcomeUnknownError.exit_status:
        return "unknown"
    return "refused" if isinstance(err, ShardrelError) and err.exit_status == 1 else "failed"


class BackgroundSaver:
    """Saves one state after the other while training goes on.

    Args:
        write: Saves a state, such as a call of ``save`` or ``save_sharded``. It runs beside training, so its group of
            ranks must be one that nothing else uses (``dist.new_group(backend="gloo")``).

    Ranks: all, in the same order of calls. Use it as a context; at its end the last save has ended too.
    """

    def __init__(self, write: Write) -> None:
        self._write = write
        self._staging = Staging()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shardrel-save")
        self._last: Pending | None = None

    def start(self, state: Mapping[str, Any], cut: Cut) -> Pending:
        """Wait for the save before, copy the state, and save the copy in the background.

        Raises:
            RunFailedError: The save before failed, and nobody has asked for its result.
        """
        began = monotonic()
        self.settle()
        copying = monotonic()
        staged = self._staging.copy(state)
        blocked = Blocked(waiting=copying - began, copying=monotonic() - copying)
        self._last = Pending(self._thread.submit(self._write, staged, cut), cut, blocked)
        return self._last

    def settle(self) -> None:
        """Wait until no save is on its way.

        Raises:
            RunFailedError: The last save failed, and nobody has asked for its result.
        """
        if self._last is not None:
            self._last.settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True)
        if err is None:
            self.settle()
