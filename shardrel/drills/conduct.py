"""Run drills one after the other. Source: schemas/SPEC.md#drills"""

from collections.abc import Callable, Iterator, Sequence

from shardrel.drills.drill import NOTHING, Codes, Drill, Outcome
from shardrel.drills.scratch import Scratch
from shardrel.errors import ErrorCode, ShardrelError, UnavailableError


def conduct(drills: Sequence[Drill], scratch: Scratch, progress: Callable[[int, int], None]) -> Iterator[Outcome]:
    """Run each drill in a dataset of its own on the scratch store.

    A drill that cannot even be set up has failed, with the code that it broke on.

    Raises:
        UnavailableError: The scratch store does not answer; no verdict would mean anything.
    """
    for done, drill in enumerate(drills, start=1):
        yield _outcome(drill, scratch)
        progress(done, len(drills))


def _outcome(drill: Drill, scratch: Scratch) -> Outcome:
    try:
        found = tuple(dict.fromkeys(drill.conduct(scratch)))
    except UnavailableError as err:
        if err.code in (ErrorCode.STORE_UNAVAILABLE, ErrorCode.STORE_DENIED):
            raise
        return _broken(drill, err)
    except ShardrelError as err:
        return _broken(drill, err)
    return Outcome(drill=drill, observed=_observed(drill, found), found=found)


def _observed(drill: Drill, found: Codes) -> str:
    if NOTHING in found or not found:
        return NOTHING
    return drill.expected if drill.expected in found else found[0]


def _broken(drill: Drill, err: ShardrelError) -> Outcome:
    """The code in brackets: it came from what the drill needs, and not from the answer to its fault."""
    return Outcome(drill=drill, observed=f"broken ({err.code})", found=(err.code,))
