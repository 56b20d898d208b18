"""Whether retention condemned anything of what somebody wrote. Source: schemas/SPEC.md#retention

Objects are named by their digest, so a writer that finds one there takes it for written. Collections do not wait for
writers; instead a writer looks, before the gate takes what it made, whether one of them condemned something of it.
"""

from collections.abc import Callable, Iterator

from shardrel.errors import FormatError, IntegrityError, NotFoundError
from shardrel.gate.closure import Named
from shardrel.records.gate import Retention
from shardrel.records.sweep import Condemned, SweepPlan
from shardrel.store.objects import get_record
from shardrel.store.port import Store

_UNREADABLE = (NotFoundError, IntegrityError, FormatError)


def seen_at(retention: Retention) -> int:
    """The boundary that whoever begins to write in this state has behind it; not that of deletions under way."""
    return retention.boundary if retention.sweep is None else retention.boundary - 1


def cleared(store: Store, retention: Retention, since: int, named: Callable[[], Named]) -> int | None:
    """The boundary up to which nothing of some objects was condemned.

    No request where no collection condemned anything since; else one a plan, and what ``named`` reads.

    Args:
        store: Where the plans are.
        retention: Of the state that is decided on.
        since: The boundary when the first of the objects was written, or a sequence of the gate at that time.
        named: Gives the objects, with their versions where these are known.

    Returns:
        None where something was condemned, or cannot be read any more.

    Raises:
        NotFoundError, IntegrityError, FormatError: A plan cannot be read.
    """
    if retention.boundary <= since:
        return retention.boundary
    try:
        objects = named()
    except _UNREADABLE:
        return None
    hit = any(_is_hit(objects, one) for plan in plans_behind(store, retention, since) for one in plan.objects)
    return None if hit else retention.boundary


def plans_behind(store: Store, retention: Retention, since: int) -> Iterator[SweepPlan]:
    """The plans that condemned something behind a sequence, newest first."""
    named = retention.plan
    while named is not None:
        plan = get_record(store, named, SweepPlan)
        if plan.after < since:
            return
        if plan.objects:
            yield plan
        named = plan.previous


def _is_hit(objects: Named, one: Condemned) -> bool:
    """An object that was written anew under another version is not the one that was condemned."""
    return one.digest in objects and objects[one.digest] in (None, one.version)
