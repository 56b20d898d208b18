"""Drills in which the holder of a publisher's key forges who is in a release.

Everything that can be computed anew is: shard digests, member sets, ordered root, totals, member index and the
publisher's signature. What is left to give the forger away is the snapshot that was declared.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from shardrel.drills.drill import Codes, Drill
from shardrel.drills.forge import Forgery, with_first, with_values
from shardrel.drills.scratch import RECORDS, Scene, Scratch, records_table
from shardrel.errors import ErrorCode
from shardrel.membership.columns import SPLIT_COLUMN, STORED_FIELDS

_ID, _, _VERSION, _ = STORED_FIELDS


def _forged(name: str, change: Callable[[Forgery], None]) -> Callable[[Scratch], Codes]:
    """Change a release, make everything above the change fit, and have it judged."""

    def conduct(scratch: Scratch) -> Codes:
        scene, root = scratch.released(name)
        return _judged(scene, root, change)

    return conduct


def _judged(scene: Scene, root: str, change: Callable[[Forgery], None]) -> Codes:
    forgery = scene.forgery(root)
    change(forgery)
    forgery.refit(scene.scratch.tools.put_index)
    return scene.judged(scene.seal(forgery))


def _rewritten(change: Callable[[Any], Any]) -> Callable[[Forgery], None]:
    return lambda forgery: forgery.rewrite(0, change)


def _other_split(table: Any) -> Any:
    first, *others = table.column(SPLIT_COLUMN).to_pylist()
    return with_values(table, SPLIT_COLUMN, ["train" if first == "test" else "test", *others])


def _doubled(table: Any) -> Any:
    return pa.concat_tables([table.slice(0, 1), table])


def _without_last(forgery: Forgery) -> None:
    forgery.relist(forgery.release.shards[:-1])


def _with_undeclared(forgery: Forgery) -> None:
    """One more shard, with a record that nobody declared."""
    record = with_first(_ID, "undeclared")(forgery.shard_table(0).slice(0, 1))
    shards = forgery.release.shards
    forgery.relist((*shards, shards[0]))
    forgery.put_shard(len(shards), forgery.encoded(record), **forgery.true_entry(record))


def _mixed_and_matched(scratch: Scratch) -> Codes:
    """The first shard of one sound root beside the second shard of another one."""
    scene, root = scratch.released("mix-and-match")
    other = scene.release(scene.publish(records_table(2 * RECORDS)))
    return _judged(
        scene, root, lambda forgery: forgery.relist((forgery.release.shards[0], *other.shards[1:]))
    )  # fmt: skip


DRILLS = (
    Drill(
        name="replaced-content",
        about="A record's content is replaced under the same id.",
        fault="One number of one record changed; shard, ordered root, index and signature made anew.",
        attack="substitution",
        expected=ErrorCode.MEMBER_CONTENT,
        section="verification",
        conduct=_forged("replaced-content", _rewritten(with_first("score", -1.0))),
    ),
    Drill(
        name="replaced-source-version",
        about="A record claims to come from another version of its source.",
        fault="One source version changed; shard, ordered root, index and signature made anew.",
        attack="substitution",
        expected=ErrorCode.MEMBER_SOURCE_VERSION,
        section="verification",
        conduct=_forged("replaced-source-version", _rewritten(with_first(_VERSION, "another"))),
    ),
    Drill(
        name="replaced-split",
        about="A record of the test split is trained on, or the other way round.",
        fault="One split changed; shard, totals, ordered root, index and signature made anew.",
        attack="substitution",
        expected=ErrorCode.MEMBER_SPLIT,
        section="verification",
        conduct=_forged("replaced-split", _rewritten(_other_split)),
    ),
    Drill(
        name="duplicated-member",
        about="A record is in a release twice and so counts twice.",
        fault="The first record of a shard doubled; everything above made anew.",
        attack="duplication",
        expected=ErrorCode.MEMBER_DUPLICATE,
        section="verification",
        conduct=_forged("duplicated-member", _rewritten(_doubled)),
    ),
    Drill(
        name="omitted-descriptor",
        about="A shard is left out of the root, and its records with it.",
        fault="The last shard's descriptor dropped, the others renumbered; everything above made anew.",
        attack="omission",
        expected=ErrorCode.MEMBER_MISSING,
        section="verification",
        conduct=_forged("omitted-descriptor", _without_last),
    ),
    Drill(
        name="extra-descriptor",
        about="A shard that nobody declared is slipped into the root.",
        fault="A shard of one undeclared record added, all renumbered; everything above made anew.",
        attack="addition",
        expected=ErrorCode.MEMBER_EXTRA,
        section="verification",
        conduct=_forged("extra-descriptor", _with_undeclared),
    ),
    Drill(
        name="mix-and-match",
        about="Sound shards of two releases are put together into one that never was.",
        fault="A root of the first shard of one release and the second of another; everything above made anew.",
        attack="mix-and-match (TUF)",
        expected=ErrorCode.MEMBER_EXTRA,
        section="verification",
        conduct=_mixed_and_matched,
    ),
)
