"""The difference of one range against a plain multiset model."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.errors import ErrorCode
from verifier.compare import compare
from verifier.parts import Listed
from verifier.seen import Seen

Member = tuple[str, str, str, int, str]

_IDS = st.sampled_from(["a", "b", "ba", "c", "é", "zz"])
_SMALL = st.sampled_from(["x", "y"])


def members(ids: st.SearchStrategy[str]) -> st.SearchStrategy[Member]:
    """Members of few values, so that equal ones turn up."""
    return st.tuples(ids, _SMALL, _SMALL, st.integers(0, 2), st.sampled_from(["train", "test"]))


def column(values: list[str], folded: bool) -> Any:
    """A string array, or the same as a dictionary."""
    array = pa.array(values, pa.string())
    return array.dictionary_encode() if folded else array


def contents(found: list[Member]) -> Any:
    """Content digests that differ as the members' numbers do."""
    return np.array([[one[3]] * 32 for one in found], np.uint8).reshape(-1, 32)


def listed(found: list[Member], folded: bool) -> Listed:
    """Declared members."""
    context = tuple(column([one[i] for one in found], folded) for i in (1, 2, 4))
    return Listed(ids=pa.array([one[0] for one in found], pa.string()), context=context, content=contents(found))


def seen(found: list[Member], folded: bool) -> Seen:
    """Members as two shards hold them, in turns."""
    one = listed(found, folded)
    places = np.arange(len(found), dtype=np.uint32)
    leaves = np.array([[i % 251] * 32 for i in range(len(found))], np.uint8).reshape(-1, 32)
    return Seen(
        ids=one.ids, context=one.context, content=one.content, leaves=leaves, shards=places % 2, rows=places // 2
    )


def expected(declared: list[Member], found: list[Member]) -> Counter[str]:
    """What a person would count."""
    by_id = {one[0]: one for one in declared}
    counts: Counter[str] = Counter()
    occurring = Counter(one[0] for one in found)
    counts[ErrorCode.MEMBER_MISSING] = sum(1 for name in by_id if not occurring[name])
    counts[ErrorCode.MEMBER_DUPLICATE] = sum(n - 1 for name, n in occurring.items() if name in by_id)
    for one in found:
        want = by_id.get(one[0])
        if want is None:
            counts[ErrorCode.MEMBER_EXTRA] += 1
            continue
        for place, code in (
            (1, ErrorCode.MEMBER_SOURCE_ID),
            (2, ErrorCode.MEMBER_SOURCE_VERSION),
            (3, ErrorCode.MEMBER_CONTENT),
            (4, ErrorCode.MEMBER_SPLIT),
        ):
            counts[code] += one[place] != want[place]
    return +counts


@settings(deadline=None, max_examples=200)
@given(
    declared=st.lists(members(_IDS), unique_by=lambda one: one[0], max_size=6),
    found=st.lists(members(st.one_of(_IDS, st.just("q"))), max_size=8),
    folded=st.tuples(st.booleans(), st.booleans()),
)
def test_every_difference_is_counted_once(
    declared: list[Member], found: list[Member], folded: tuple[bool, bool]
) -> None:
    declared = sorted(declared, key=lambda one: one[0].encode())
    result = compare(listed(declared, folded[0]), seen(found, folded[1]), "snapshot", lambda shard: f"shard-{shard}")
    counted: Counter[str] = Counter()
    for spot in result.spots:
        counted[spot.code] += spot.count
    assert counted == expected(declared, found)
    order = list(zip(*_columns(result.seen), strict=True))
    assert order == sorted(order)


def _columns(one: Seen) -> list[list[bytes]]:
    strings = [values.cast(pa.string()).to_pylist() for values in (one.ids, *one.context)]
    ids, source, version, split = ([text.encode() for text in column_] for column_ in strings)
    return [ids, source, version, [row.tobytes() for row in one.content], split]


@settings(deadline=None, max_examples=50)
@given(
    found=st.lists(members(_IDS), min_size=1, unique_by=lambda one: one[0], max_size=6),
    order=st.randoms(use_true_random=False),
    folded=st.booleans(),
    proposal=st.none() | st.lists(st.integers(0, 5), min_size=6, max_size=6),
)
def test_equal_members_in_any_order_have_no_difference(
    found: list[Member], order: Any, folded: bool, proposal: list[int] | None
) -> None:
    declared = sorted(found, key=lambda one: one[0].encode())
    shuffled = list(found)
    order.shuffle(shuffled)
    one = seen(shuffled, folded)
    # Whatever order is proposed, right or wrong.
    proposed = None if proposal is None else np.array([p % len(found) for p in proposal[: len(found)]])
    result = compare(listed(declared, folded), one, "snapshot", str, proposed)
    assert result.spots == []
    # Leaves, shards and rows go along with their members.
    origin = {name: i for i, (name, *_) in enumerate(shuffled)}
    for place, (name, *_) in enumerate(declared):
        assert result.seen.leaves[place][0] == origin[name] % 251
        assert (result.seen.shards[place], result.seen.rows[place]) == (origin[name] % 2, origin[name] // 2)


@pytest.mark.parametrize(
    ("place", "code"),
    [(1, ErrorCode.MEMBER_SOURCE_ID), (2, ErrorCode.MEMBER_SOURCE_VERSION), (4, ErrorCode.MEMBER_SPLIT)],
)
def test_one_value_in_all_rows_is_compared_too(place: int, code: ErrorCode) -> None:
    """Dictionaries of one string each, which are looked at before any row is."""
    declared: list[Member] = [(name, "x", "x", 1, "train") for name in "abc"]
    held = [(*one[:place], "other", *one[place + 1 :]) for one in declared]
    found = compare(listed(declared, True), seen(held, True), "s", str)
    assert {spot.code for spot in found.spots} == {code}
    assert sum(spot.count for spot in found.spots) == 3
    assert not compare(listed(declared, True), seen(declared, True), "s", str).spots
