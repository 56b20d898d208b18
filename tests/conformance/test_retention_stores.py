"""gc on every kind of store: exact versions go, and what is retained still verifies."""

from pathlib import Path

import pytest

from shardrel.store.layout import object_key
from tests.support.retained import retained
from tests.support.stores import make_store


@pytest.mark.parametrize("kind", ["local", "seaweed", "seaweed-versioned"])
def test_old_releases_go_and_the_current_one_still_verifies(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    scene = retained(make_store(kind, request, tmp_path), releases=2)
    written = {one: scene.store.read(object_key(one), max_bytes=1 << 20) for one in scene.objects()}
    done = scene.gc()
    assert scene.roots[0] in {one.digest for one in done.objects}
    assert done.locked == ()
    for one in done.objects:
        stored = written[one.digest]
        assert stored is not None
        assert stored.version == one.version
        assert scene.store.read(object_key(one.digest), max_bytes=1 << 20, version=one.version) is None
    assert not scene.objects() & {one.digest for one in done.objects}
    assert scene.verify(scene.roots[1]) == "PASSED"
    assert scene.gc().objects == ()
    # What went may be published again, under versions of its own.
    assert scene.verify(scene.publish(0)) == "PASSED"
