"""affected: the roots that hold a named member, and all that use them."""

from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from shardrel.canonical import json
from shardrel.errors import ErrorCode
from shardrel.gate.fence import advance
from shardrel.gate.revoke import revoke
from shardrel.gate.runs import cancel, finish, start
from shardrel.gate.view import read_gate
from shardrel.records.release import Release
from shardrel.records.snapshot import Snapshot
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest, get_record
from shardrel.trust.key_encryption import Unlocked
from tests.support.benchmark_texts import text_entry
from tests.support.encrypted import an_encrypted_release
from tests.support.publishing import records_table
from tests.support.retained import Retained, retained
from tests.unit.gate.test_gc_checkpoints import checkpoint_of
from tests.unit.verifier.test_verify import benchmark, tombstone
from verifier import fences
from verifier.affected import Affected, find_affected
from verifier.fences import Selectors
from verifier.parts import fetched, read_snapshot_part

IDS = records_table(25)["id"].to_pylist()
TEXTS = records_table(25)["text"].to_pylist()


@pytest.fixture
def scene() -> Retained:
    """Releases of 20, 21 and 22 records: the alias is at the last one, and each has a run."""
    scene = Retained()
    scene.made.init()
    for number, run in enumerate(("finished", "cancelled", "open")):
        scene.release(number)
        start(scene.store, scene.made.dataset, "prod", scene.call(), run_id=run)
        checkpoint_of(scene, run, 0)
    checkpoint_of(scene, "open", 1)
    finish(scene.store, scene.made.dataset, "finished", scene.call())
    cancel(scene.store, scene.made.dataset, "cancelled", scene.call())
    return scene


def ask(scene: Retained, selectors: Selectors) -> Affected:
    """Who holds what these select."""
    return find_affected(
        scene.store, scene.view, selectors, unlocked=Unlocked(), workers=2, progress=lambda done, total: None
    )


def deleted(**selector: str) -> Selectors:
    """One tombstone's."""
    return fences.tombstones([tombstone(1, **selector)], 1)


def release_of(scene: Retained, root: str) -> Release:
    return json.decode(get_by_digest(scene.store, root), Release)


def content_of(scene: Retained, number: int, row: int) -> str:
    snapshot = get_record(scene.store, release_of(scene, scene.roots[number]).objects.snapshot, Snapshot)
    return (
        "sha256:"
        + read_snapshot_part(partial(fetched, scene.store), snapshot.parts[0], None).content[row].tobytes().hex()
    )


def test_a_member_of_all_releases_names_every_root_alias_run_and_checkpoint(scene: Retained) -> None:
    found = ask(scene, deleted(sample_id=IDS[0]))
    assert found.roots == dict.fromkeys(sorted(scene.roots), 1)
    assert [(alias.alias, alias.generation, alias.root) for alias in found.users.aliases] == [
        ("prod", 3, scene.roots[2])
    ]
    assert {(run.run, run.state, run.root) for run in found.users.runs} == {
        ("finished", "finished", scene.roots[0]),
        ("cancelled", "cancelled", scene.roots[1]),
        ("open", "open", scene.roots[2]),
    }
    made = [(one.run, one.generation) for one in found.users.checkpoints]
    assert made == [("cancelled", 0), ("finished", 0), ("open", 0), ("open", 1)]
    assert (found.unreadable, found.gone) == ({}, ())


def test_a_member_of_the_newest_release_names_nothing_of_the_others(scene: Retained) -> None:
    found = ask(scene, deleted(sample_id=IDS[21]))
    assert list(found.roots) == [scene.roots[2]]
    assert {one.run for one in (*found.users.runs, *found.users.checkpoints)} == {"open"}
    assert ask(scene, deleted(sample_id="nobody")).users.runs == ()


@pytest.mark.parametrize("kind", ["source", "version", "content", "benchmark", "text", "shingles", "two logs"])
def test_every_kind_of_selector_counts_the_members_that_it_names(scene: Retained, kind: str) -> None:
    everybody = ask(scene, deleted(source_id="a.arrow"))
    assert [everybody.roots[root] for root in scene.roots] == [20, 21, 22]
    versions = records_table(22)["version"].to_pylist()
    shared = text_entry(1, " ".join(TEXTS[4].split()[:5]), words=5)
    selectors, expected = {
        "source": (deleted(source_id="b.arrow"), [0, 0, 0]),
        "version": (
            deleted(source_id="a.arrow", source_version="2"),
            [versions[:count].count(2) for count in (20, 21, 22)],
        ),
        "content": (deleted(content_digest=content_of(scene, 0, 3)), [1, 1, 1]),
        "benchmark": (fences.benchmarks([benchmark(1, content_digest=content_of(scene, 0, 3))], 1), [1, 1, 1]),
        "text": (fences.benchmarks([text_entry(1, TEXTS[21])], 1), [0, 0, 1]),
        "shingles": (fences.benchmarks([shared], 1), [1, 1, 1]),
        "two logs": (
            fences.either(deleted(sample_id=IDS[0]), fences.benchmarks([text_entry(1, TEXTS[21])], 1)),
            [1, 1, 2],
        ),
    }[kind]
    found = ask(scene, selectors)
    assert [found.roots.get(root, 0) for root in scene.roots] == expected
    assert found.unreadable == {}


def test_what_a_release_left_out_it_does_not_hold(scene: Retained) -> None:
    advance(scene.store, scene.made.dataset, "tombstones", [tombstone(1, sample_id=IDS[0])], scene.call())
    found = ask(scene, deleted(sample_id=IDS[0]))
    assert set(found.roots) == set(scene.roots)
    assert ask(scene, fences.NOTHING).roots == {}


def test_a_root_that_retention_let_go_of_is_gone_and_its_runs_are_still_known() -> None:
    scene = retained(releases=2)
    scene.gc()
    found = ask(scene, deleted(sample_id=IDS[0]))
    assert (list(found.roots), found.gone, found.unreadable) == ([scene.roots[1]], (scene.roots[0],), {})
    assert found.states == {scene.roots[0]: None, scene.roots[1]: "ADMITTED"}


@pytest.mark.parametrize("what", ["root", "snapshot", "part"])
@pytest.mark.parametrize("damage", ["absent", "changed"])
def test_what_the_gate_knows_and_cannot_be_read_is_said(scene: Retained, what: str, damage: str) -> None:
    release = release_of(scene, scene.roots[0])
    snapshot = get_record(scene.store, release.objects.snapshot, Snapshot)
    digest = {"root": scene.roots[0], "snapshot": release.dataset_snapshot, "part": snapshot.parts[0].object.digest}
    spoil(scene.store, digest[what], damage)
    found = ask(scene, deleted(sample_id=IDS[0]))
    # A snapshot is read at the version that its root names.
    gone = damage == "absent" or what == "snapshot"
    code = ErrorCode.STORAGE_ABSENT if gone else ErrorCode.STORAGE_DIGEST
    assert found.unreadable == {scene.roots[0]: code.value}
    assert set(found.roots) == set(scene.roots[1:])


def test_a_shard_that_cannot_be_read_is_said_where_texts_are_asked_for(scene: Retained) -> None:
    lost = release_of(scene, scene.roots[0]).shards[0].digest
    holders = {root for root in scene.roots if any(one.digest == lost for one in release_of(scene, root).shards)}
    spoil(scene.store, lost, "changed")
    found = ask(scene, fences.benchmarks([text_entry(1, TEXTS[21])], 1))
    assert found.unreadable == dict.fromkeys(sorted(holders), ErrorCode.STORAGE_ABSENT.value)
    assert scene.roots[2] not in holders
    assert list(found.roots) == [scene.roots[2]]


def test_a_revoked_root_is_asked_too(scene: Retained) -> None:
    revoke(scene.store, scene.made.dataset, scene.roots[1], "bad-labels", scene.call())
    found = ask(scene, deleted(sample_id=IDS[0]))
    assert (found.roots[scene.roots[1]], found.states[scene.roots[1]]) == (1, "INVALID")


def test_what_roots_share_is_read_once(scene: Retained) -> None:
    found = ask(scene, deleted(content_digest=content_of(scene, 0, 0)))
    assert (found.read, found.passed_over) == (3, 0)
    again = scene.publish(2)
    assert again == scene.roots[2]
    assert ask(scene, deleted(sample_id="zzz")).read == 0
    assert ask(scene, deleted(sample_id="zzz")).passed_over == 3


def test_an_encrypted_release_needs_its_key_where_texts_are_asked_for() -> None:
    built = an_encrypted_release()
    named = fences.benchmarks([text_entry(1, max(built.shard_table(0)["text"].to_pylist(), key=len), words=3)], 1)
    view = read_gate(built.store, built.made.dataset)
    asked = {}
    for keys in ((), (built.key,)):
        asked[len(keys)] = find_affected(
            built.store, view, named, unlocked=Unlocked(keys), workers=1, progress=lambda done, total: None
        )
    plain = next(root for root in view.body.candidates if root != built.root)
    assert (list(asked[0].roots), asked[0].unreadable) == ([plain], {built.root: ErrorCode.ENCRYPTION_READER.value})
    assert asked[1].roots == dict.fromkeys(sorted([plain, built.root]), asked[0].roots[plain])
    assert asked[1].unreadable == {}


def spoil(store: Any, digest: str, damage: str) -> None:
    """Take an object away, or change a byte of it."""
    assert isinstance(store, MemoryStore)
    key = object_key(digest)
    stored = store.read(key, max_bytes=1 << 30)
    assert stored is not None
    store.delete(key, stored.version)
    if damage == "changed":
        store.create(key, stored.data[:-1] + bytes([stored.data[-1] ^ 1]))


def test_selectors_of_two_kinds_are_put_together() -> None:
    both = fences.either(deleted(sample_id="b"), fences.benchmarks([text_entry(1, "one two three", words=3)], 1))
    assert both.sample_ids == pa.array(["b"])
    assert (both.by_text, both.beyond_ids, len(both.shingles)) == (True, True, 1)
