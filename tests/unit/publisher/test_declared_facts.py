"""What a snapshot says of all its leaves spares a publisher work, and never changes what it does."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from publisher.options import PublishOptions
from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, RefusedError
from shardrel.gate.fences import FenceSelectors
from shardrel.gate.view import read_gate
from shardrel.records.snapshot import MemberIndex, Snapshot
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, put_record
from tests.support.publishing import Publishing, records_table, write_source
from tests.support.release_builder import a_world
from verifier.tree import OrderedTree
from verifier.verify import verify_release

OPTIONS = PublishOptions(shards=3)
OTHER = "sha256:" + "0" * 64


@pytest.fixture
def dataset() -> Publishing:
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    return publishing


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_source(tmp_path / "a.arrow", records_table(100))
    return tmp_path


def redeclared(dataset: Publishing, snapshot: str, **fields: Any) -> str:
    declared = json.decode(get_by_digest(dataset.store, snapshot), Snapshot)
    return put_record(dataset.store, structs.replace(declared, **fields)).digest


def without_parts(dataset: Publishing, snapshot: str) -> None:
    for part in json.decode(get_by_digest(dataset.store, snapshot), Snapshot).parts:
        key = object_key(part.object.digest)
        stored = dataset.store.read(key, max_bytes=part.object.size)
        assert stored is not None
        dataset.store.delete(key, stored.version)


def test_the_very_same_leaves_are_compared_without_the_parts(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    without_parts(dataset, snapshot)
    assert dataset.publish(snapshot, source, options=OPTIONS).records == 100


def test_a_wrong_member_set_digest_changes_no_result(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    result = dataset.publish(snapshot, source, options=OPTIONS)
    wrong = dataset.publish(redeclared(dataset, snapshot, member_set_digest=OTHER), source, options=OPTIONS)
    right, other = dataset.release(result.root), dataset.release(wrong.root)
    assert other.shards == right.shards
    assert other.ordered_member_tuple_root == right.ordered_member_tuple_root


def test_a_source_with_another_record_is_refused_whatever_the_facts_say(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    write_source(source / "a.arrow", records_table(101))
    for declared in (snapshot, redeclared(dataset, snapshot, member_set_digest=OTHER)):
        with pytest.raises(RefusedError) as caught:
            dataset.publish(declared, source, options=OPTIONS)
        assert caught.value.code == ErrorCode.SOURCE_MISMATCH


def test_block_roots_are_those_of_the_member_index(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    release = dataset.release(dataset.publish(snapshot, source, options=OPTIONS).root)
    index = json.decode(get_by_digest(dataset.store, release.objects.member_index.digest), MemberIndex)
    assert index.block_roots == json.decode(get_by_digest(dataset.store, snapshot), Snapshot).block_roots


def test_wrong_block_roots_do_not_verify(dataset: Publishing, source: Path) -> None:
    snapshot = redeclared(dataset, dataset.snapshot(source), block_roots=(digest_of(b"another tree"),))
    root = dataset.publish(snapshot, source, options=OPTIONS).root
    result = verify_release(dataset.store, root, read_gate(dataset.store, dataset.dataset), world=a_world(dataset))
    assert {finding.code for finding in result.report.findings} >= {
        ErrorCode.ORDERED_ROOT, ErrorCode.SNAPSHOT_INVALID, ErrorCode.MEMBER_INDEX,
    }  # fmt: skip


def test_where_a_record_is_left_out_the_tree_is_that_of_the_others(dataset: Publishing, source: Path) -> None:
    snapshot = dataset.snapshot(source)
    gone = FenceSelectors(sample_ids=frozenset(records_table(100)["id"].to_pylist()[:1]))
    release = dataset.release(dataset.publish(snapshot, source, options=OPTIONS, fences=gone).root)
    index = json.decode(get_by_digest(dataset.store, release.objects.member_index.digest), MemberIndex)
    tree = OrderedTree()
    for part in index.parts:
        leaves = pq.read_table(pa.BufferReader(get_by_digest(dataset.store, part.object.digest)))["leaf"]
        tree.append(np.frombuffer(b"".join(leaves.to_pylist()), np.uint8).reshape(-1, 32))
    assert release.totals.records == 99
    assert index.block_roots == tree.block_roots()
    assert release.ordered_member_tuple_root == tree.ordered_root(0, 0)
