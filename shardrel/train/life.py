"""A run's permit while it trains: refused checkpoints, renewal, and what the job does then.

Source: schemas/SPEC.md#runs
"""

from collections.abc import Callable
from dataclasses import dataclass

from shardrel.checkpoint.group import Group, on_coordinator
from shardrel.checkpoint.save import Saved
from shardrel.clock import now_utc
from shardrel.errors import ErrorCode, RefusedError, RunFailedError
from shardrel.gate import runs
from shardrel.gate.call import Call
from shardrel.store.port import Store
from shardrel.train.pin import PinnedRun
from shardrel.trust.signer import Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSaved:
    """A checkpoint that the gate refused, behind which the job trains on.

    Attributes:
        code: ``permit.recheck-needed``: no report reaches the fences of now.
        step: Of the cut that was not saved.
    """

    code: str
    step: int


def saved_or_policy(
    group: Group, store: Store, pin: PinnedRun, step: int, signer: Signer | None, save: Callable[[], Saved]
) -> Saved | NotSaved:
    """Save; where a fence has closed the permit, do what the plan declares. The root is the run's in any case.

    Raises:
        RunFailedError: On every rank alike: ``permit.closed`` under ``stop``; what the renewal was refused with, such
            as ``permit.root-has-hit``; and as ``shardrel.checkpoint.save.save``.

    Ranks: all.
    """
    try:
        return _counted(pin, save())
    except RunFailedError as err:
        if err.code != ErrorCode.PERMIT_CLOSED:
            raise
        _tell(pin, "checkpoint-refused", err.code, step)
        if pin.plan.on_closed == "stop":
            raise
    try:
        on_coordinator(group, lambda: _renew(store, pin, signer))
    except RunFailedError as refused:
        _tell(pin, "renewal-refused", refused.code, step)
        if refused.code == ErrorCode.PERMIT_RECHECK and pin.plan.on_closed == "go-on":
            return NotSaved(code=refused.code.value, step=step)
        raise
    pin.watch.say("renewed", step=step)
    pin.watch.figures.put("shardrel_permit_open", 1, root=pin.root)
    return _counted(pin, save())


def _counted(pin: PinnedRun, saved: Saved) -> Saved:
    pin.watch.count("shardrel_checkpoints_total")
    pin.watch.say("checkpoint", step=saved.step, generation=saved.generation, commit=saved.commit)
    return saved


def _tell(pin: PinnedRun, event: str, code: str, step: int) -> None:
    pin.watch.figures.put("shardrel_permit_open", 0, root=pin.root)
    pin.watch.count("shardrel_checkpoints_refused_total", code=str(code))
    pin.watch.say(event, code=str(code), step=step, policy=pin.plan.on_closed)


def _renew(store: Store, pin: PinnedRun, signer: Signer | None) -> bytes:
    if signer is None:
        raise RefusedError(ErrorCode.TRUST_ROLE, "the coordinator needs a key of the runner's role")
    call = Call(signers=[signer], recorded_at=now_utc(), operation_id=None, pending=None)
    runs.renew(store, pin.record.dataset, pin.record.run_id, call)
    return b""
