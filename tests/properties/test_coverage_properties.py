"""Coverage of tensors by boxes, against a count of every element."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.checkpoint.coverage import Box, Coverage, Gap, OutOfBounds, Overlap, Tiled, coverage
from shardrel.checkpoint.ownership import TensorSpec, owned_regions, pack

shapes = st.lists(st.integers(1, 5), min_size=0, max_size=4).map(tuple)


def counted(shape: tuple[int, ...], boxes: list[Box]) -> Coverage:
    """The first element in row-major order that isn't covered exactly once."""
    counts = np.zeros(shape, np.int64)
    for box in boxes:
        counts[tuple(slice(o, o + s) for o, s in zip(box.offsets, box.sizes, strict=True))] += 1
    for at in itertools.product(*map(range, shape)):
        if counts[at] != 1:
            return Gap(at) if counts[at] == 0 else Overlap(at)
    return Tiled()


@st.composite
def random_boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Box:
    offsets = tuple(draw(st.integers(0, extent - 1)) for extent in shape)
    return Box(offsets, tuple(draw(st.integers(1, e - o)) for e, o in zip(shape, offsets, strict=True)))


@st.composite
def tilings(draw: st.DrawFn, shape: tuple[int, ...]) -> list[Box]:
    """Cut the whole box again and again."""
    boxes = [Box((0,) * len(shape), shape)]
    for _ in range(draw(st.integers(0, 6))):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axes = [axis for axis, size in enumerate(box.sizes) if size > 1]
        if not axes:
            boxes.append(box)
            continue
        axis = draw(st.sampled_from(axes))
        at = draw(st.integers(1, box.sizes[axis] - 1))
        low, high, shift = list(box.sizes), list(box.sizes), list(box.offsets)
        low[axis], high[axis], shift[axis] = at, box.sizes[axis] - at, box.offsets[axis] + at
        boxes += [Box(box.offsets, tuple(low)), Box(tuple(shift), tuple(high))]
    return draw(st.permutations(boxes))


@settings(max_examples=80, deadline=None)
@given(data=st.data(), shape=shapes)
def test_any_cutting_of_a_tensor_tiles_it(data: st.DataObject, shape: tuple[int, ...]) -> None:
    assert coverage(shape, data.draw(tilings(shape))) == Tiled()


@settings(max_examples=150, deadline=None)
@given(data=st.data(), shape=shapes)
def test_random_boxes_are_judged_as_a_count_of_every_element_judges_them(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    boxes = data.draw(st.lists(random_boxes(shape), max_size=6))
    assert coverage(shape, boxes) == counted(shape, boxes)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), shape=shapes)
def test_a_tiling_with_a_box_lost_moved_or_doubled_is_judged_right(data: st.DataObject, shape: tuple[int, ...]) -> None:
    boxes = list(data.draw(tilings(shape)))
    victim = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
    boxes += data.draw(st.sampled_from([[], [victim, victim]]))
    assert coverage(shape, boxes) == counted(shape, boxes)
    assert coverage(shape, boxes) != Tiled()


def test_boxes_out_of_bounds_empty_or_of_other_dimension_are_named() -> None:
    whole = Box((0, 0), (2, 3))
    for bad in (Box((0, 1), (2, 3)), Box((0, 0), (0, 3)), Box((0,), (2,)), Box((-1, 0), (1, 1)), Box((2, 0), (1, 1))):
        assert coverage((2, 3), [whole, bad]) == OutOfBounds(1)


def test_a_tensor_without_elements_has_no_box() -> None:
    assert coverage((0, 4), []) == Tiled()
    assert coverage((0, 4), [Box((0, 0), (0, 4))]) == OutOfBounds(0)


def test_many_regions_are_judged_quickly_enough_to_be_linear() -> None:
    boxes = [Box((row, column), (1, 1)) for row in range(200) for column in range(250)]
    assert coverage((200, 250), boxes) == Tiled()
    assert coverage((200, 250), boxes[:777] + boxes[778:]) == Gap((3, 27))
    assert coverage((200, 250), [*boxes, boxes[777]]) == Overlap((3, 27))


specs = st.builds(
    TensorSpec,
    name=st.just("t"),
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 700, 1030]), max_size=3).map(tuple),
    dtype=st.just("float32"),
    item_bytes=st.sampled_from([1, 4]),
)


@settings(max_examples=80, deadline=None)
@given(tensors=st.lists(specs, max_size=8), world_size=st.integers(1, 7))
def test_the_ranks_together_own_every_element_of_replicated_tensors_once(
    tensors: list[TensorSpec], world_size: int
) -> None:
    owned = [region for rank in range(world_size) for region in owned_regions(tensors, rank, world_size)]
    for index, spec in enumerate(tensors):
        assert coverage(spec.shape, [region.box for region in owned if region.tensor == index]) == Tiled()


@settings(max_examples=80, deadline=None)
@given(lengths=st.lists(st.integers(0, 50), max_size=20), limit=st.integers(1, 60))
def test_packing_keeps_order_and_joins_only_what_fits(lengths: list[int], limit: int) -> None:
    groups = pack(lengths, limit)
    assert [index for group in groups for index in group] == list(range(len(lengths)))
    assert all(len(group) == 1 or sum(lengths[i] for i in group) <= limit for group in groups)
