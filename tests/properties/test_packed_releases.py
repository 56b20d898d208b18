"""Any columns that can be packed: published, verified and read back, beside the same release with lists."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.options import PublishOptions
from shardrel.gate.view import read_gate
from shardrel.records.snapshot import Columns
from shardrel.store.memory import MemoryStore
from tests.support.publishing import Publishing, write_source
from tests.support.release_builder import a_world
from tests.support.tables import packable_columns
from verifier.verify import verify_release

IDS = Columns(id="id", source=None, version=None, split=None)


def published(made: Publishing, source: Path, snapshot: str, packed: tuple[str, ...]) -> Any:
    """The release's manifest, verified."""
    root = made.publish(snapshot, source, options=PublishOptions(shards=2, packed=packed)).root
    report = verify_release(made.store, root, read_gate(made.store, made.dataset), world=a_world(made)).report
    assert report.findings == ()
    return made.release(root)


@settings(max_examples=25, deadline=None)
@given(packable_columns().filter(len), st.integers(1, 3))
def test_a_packed_release_has_the_members_of_the_native_one(column: Any, repeat: int) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    table = pa.table({"id": [f"s{n}" for n in range(repeat * len(column))], "c": pa.chunked_array([column] * repeat)})
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(Path(folder) / "a.arrow", table)
        snapshot = made.snapshot(source, columns=IDS, token_column=None)
        ours, theirs = (published(made, source, snapshot, packed) for packed in (("c",), ()))
    assert ours.ordered_member_tuple_root == theirs.ordered_member_tuple_root
    assert [one.logical_digest for one in ours.shards] == [one.logical_digest for one in theirs.shards]
    assert [c.physical for c in ours.serializer.columns][-1] == "packed"
