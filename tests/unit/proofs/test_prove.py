"""Proofs made from a store: of releases as they are published, and of ones that somebody forged."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from publisher.publish import World, publish
from publisher.snapshot import SnapshotOptions, make_snapshot
from shardrel.canonical import json
from shardrel.cli.drill_tools import the_tools
from shardrel.data.reading import PartList, Reading, stored_reading
from shardrel.drills.forge import with_values
from shardrel.errors import ErrorCode, IntegrityError, InvalidInputError, NotFoundError, RefusedError
from shardrel.gate.fences import FenceSelectors
from shardrel.membership import merkle, proof
from shardrel.proofs import prove as proving
from shardrel.proofs.prove import proof_bytes, prove
from shardrel.proofs.reading import stored_member
from shardrel.records.proof import Proof
from shardrel.records.release import Release, Shard
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put_record, unversioned
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.key_files import make_key_file
from tests.support.publishing import ID_COLUMNS, NO_FENCES, NOW, Publishing, records_table, write_source
from tests.support.release_builder import Built, a_release
from verifier.proof import check_proof

TOOLS = the_tools()


def proved(built: Built, sample_id: str) -> Proof:
    """Prove of the manifest as it now is, and check the file."""
    root = put_record(built.store, built.release).digest
    made = prove(built.store, root, sample_id, stored_reading(built.store, Unlocked()))
    assert check_proof(proof_bytes(made), root, sample_id) == made
    return made


@cache
def sample_ids() -> list[str]:
    return sorted(records_table(60)["id"].to_pylist())


def test_every_member_is_present_once_and_every_gap_is_absence() -> None:
    built = a_release()
    for sample_id in sample_ids():
        assert proved(built, sample_id).count == 1
    for absent in ("a", "z", *[sample_id + "x" for sample_id in sample_ids()[::7]]):
        assert proved(built, absent).count == 0
    ends = proved(built, "a"), proved(built, "z")
    assert [(one.left is None, one.right is None) for one in ends] == [(True, False), (False, True)]


def test_the_tuple_fields_are_those_of_the_source() -> None:
    row = records_table(60).slice(5, 1).to_pylist()[0]
    made = proved(a_release(), row["id"])
    assert (made.members[0].source_version, made.members[0].split) == (str(row["version"]), row["split"])
    assert made.left is not None
    assert made.left.sample_id < row["id"]


def test_parts_of_any_size_and_blocks_of_any_size_give_the_same_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = proved(a_release(), sample_ids()[30])
    for level, part in ((2, 7), (4, 1), (3, 60)):
        for module in (proof, proving):
            monkeypatch.setattr(module, "BLOCK_LEAVES", 1 << level)
        monkeypatch.setattr(merkle, "_BLOCK_LEVEL", level)
        built = a_release()
        built.refit(TOOLS.put_index)
        built.recut(part, part)
        for at in range(0, 60, 9):
            assert proved(built, sample_ids()[at]).count == 1
            assert proved(built, sample_ids()[at] + "x").count == 0
        made = proved(built, sample_ids()[30])
        assert (made.nodes, made.left, made.members) == (whole.nodes, whole.left, whole.members)


def test_only_parts_under_the_blocks_of_the_neighbours_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (proof, proving):
        monkeypatch.setattr(module, "BLOCK_LEAVES", 8)
    monkeypatch.setattr(merkle, "_BLOCK_LEVEL", 3)
    built = a_release()
    built.refit(TOOLS.put_index)
    built.recut(4, 4)
    root = put_record(built.store, built.release).digest
    opened: list[Part] = []
    real = stored_reading(built.store, Unlocked())

    def watched(listed: PartList) -> PartList:
        def read(part: Part) -> Any:
            opened.append(part)
            return listed.read(part)

        return PartList(parts=listed.parts, read=read)

    def shard(release: Release, entry: Shard) -> Any:
        raise AssertionError(entry.id)

    reading = Reading(
        snapshot=lambda snapshot: watched(real.snapshot(snapshot)),
        index=lambda index, release: watched(real.index(index, release)),
        shard=shard,
    )
    assert prove(built.store, root, sample_ids()[21], reading).count == 1
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    asked = [index.parts.index(one) for one in opened if one in index.parts]
    assert sorted(asked) == [4, 5]
    assert len({part.object.digest for part in opened}) - len(asked) <= 2


def _doubled(table: Any) -> Any:
    return pa.concat_tables([table.slice(0, 1), table])


def _other_content(table: Any) -> Any:
    twin = with_values(table.slice(0, 1), "score", [-1.0])
    return pa.concat_tables([twin, table])


@pytest.mark.parametrize("change", [_doubled, _other_content])
def test_duplicates_are_proved_also_where_they_are_not_what_was_declared(change: Any) -> None:
    built = a_release()
    sample_id = built.shard_table(0).column(0)[0].as_py()
    built.rewrite(0, change)
    built.refit(TOOLS.put_index)
    made = proved(built, sample_id)
    assert made.count == 2
    assert len({member.content_digest for member in made.members}) == (1 if change is _doubled else 2)
    assert "exactly 2 members" in made.about


def test_a_record_that_nobody_declared_is_proved_from_its_shard() -> None:
    built = a_release()
    built.rewrite(0, lambda table: with_values(table, "_shardrel_sample_id", ["a", *table.column(0).to_pylist()[1:]]))
    built.refit(TOOLS.put_index)
    assert proved(built, "a").count == 1


def test_a_member_index_that_lies_gives_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (proof, proving):
        monkeypatch.setattr(module, "BLOCK_LEAVES", 8)
    monkeypatch.setattr(merkle, "_BLOCK_LEVEL", 3)
    built = a_release()
    built.refit(TOOLS.put_index)
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    lies = [
        replace(index, block_roots=("sha256:" + "0" * 64, *index.block_roots[1:])),
        replace(index, block_roots=index.block_roots[1:]),
        replace(index, records=59),
        replace(index, parts=(replace(index.parts[0], records=61),)),
    ]
    for lie in lies:
        objects = replace(built.release.objects, member_index=unversioned(put_record(built.store, lie)))
        root = put_record(built.store, replace(built.release, objects=objects)).digest
        with pytest.raises(IntegrityError) as caught:
            prove(built.store, root, "z", stored_reading(built.store, Unlocked()))
        assert caught.value.code == ErrorCode.MEMBER_INDEX


def test_places_that_do_not_exist_are_no_bug() -> None:
    for shard, row in ((7, 0), (0, 1000)):
        built = a_release()
        built.rewrite(0, _other_content)
        real = TOOLS.put_index

        def elsewhere(
            store: Any, ids: Any, leaves: Any, places: Any, root: str, at: Any = (shard, row), put: Any = real
        ) -> Any:
            return put(store, ids, leaves, tuple(np.full(len(ids), number, np.uint32) for number in at), root)

        sample_id = built.shard_table(0).column(0)[0].as_py()
        built.refit(elsewhere)
        with pytest.raises(IntegrityError) as caught:
            proved(built, sample_id)
        assert caught.value.code == ErrorCode.MEMBER_INDEX


@pytest.mark.parametrize("sample_id", ["", "x" * 1025, "\ud800"])
def test_what_can_be_no_sample_id_is_a_wrong_call(sample_id: str) -> None:
    built = a_release()
    with pytest.raises(InvalidInputError) as caught:
        prove(built.store, built.root, sample_id, stored_reading(built.store, Unlocked()))
    assert caught.value.code == ErrorCode.INPUT_INVALID


def test_a_root_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        prove(MemoryStore(), "sha256:" + "0" * 64, "a", stored_reading(MemoryStore(), Unlocked()))
    assert caught.value.code == ErrorCode.STORAGE_ABSENT


def test_what_the_fences_left_out_is_absent(tmp_path: Path) -> None:
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(60))
    fences = FenceSelectors(sample_ids=frozenset(sample_ids()[3:5]))
    snapshot = made.snapshot(source)
    root = made.publish(snapshot, source, options=PublishOptions(shards=2), fences=fences).root
    for sample_id, count in zip(sample_ids()[2:6], (1, 0, 0, 1), strict=True):
        proof_of = prove(made.store, root, sample_id, stored_reading(made.store, Unlocked()))
        assert check_proof(json.encode(proof_of), root).count == count


def test_an_encrypted_release_is_proved_with_its_key_alone(tmp_path: Path) -> None:
    key, other = (make_key_file(tmp_path, name)[1] for name in ("one", "two"))
    made = Publishing(store=MemoryStore())
    made.init()
    source = write_source(tmp_path / "a.arrow", records_table(60))
    declared = SnapshotOptions(dataset=made.dataset, columns=ID_COLUMNS, token_column="tokens", encrypt=key)
    snapshot = make_snapshot(
        made.store, [str(source)], declared, tombstones=NO_FENCES, benchmarks=NO_FENCES, progress=lambda *_: None
    ).snapshot
    options = PublishOptions(shards=2, encrypt=key, encrypt_index=True)
    unlocked = Unlocked([other, key])
    world = World(signer=made.keys["publisher"], now=lambda: NOW, progress=lambda *_: None, unlocked=unlocked)
    root = publish(made.store, snapshot, [str(source)], options, fences=NO_FENCES, world=world).root
    for sample_id, count in ((sample_ids()[7], 1), (sample_ids()[7] + "x", 0)):
        assert (
            check_proof(
                proof_bytes(prove(made.store, root, sample_id, stored_reading(made.store, unlocked))), root
            ).count
            == count
        )
    # Also what lies in an encrypted shard is found.
    release = made.release(root)
    assert stored_member(made.store, release, (1, 3), stored_reading(made.store, unlocked)).split in {"train", "test"}
    for keys, code in (([], ErrorCode.ENCRYPTION_READER), ([other], ErrorCode.ENCRYPTION_KEY)):
        with pytest.raises(RefusedError) as caught:
            prove(made.store, root, "a", stored_reading(made.store, Unlocked(keys)))
        assert caught.value.code == code
