"""Encrypted parts of a member index and of a snapshot: read by their key, bound to their place and range."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from shardrel.errors import ErrorCode, IntegrityError, RefusedError
from shardrel.records.encryption import Encryption, ShardKey
from shardrel.records.snapshot import MemberIndex, Part
from shardrel.store.objects import get_record, put_record, unversioned
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.release_keys import index_key, snapshot_key
from tests.support.benchmark_texts import text_entry
from tests.support.encrypted import Encrypted, a_key, an_encrypted_release
from tests.support.release_builder import a_world, codes
from tests.unit.verifier.test_verify import fence, first, gate_of, tombstone
from verifier.recheck import recheck_fences


def with_index(built: Encrypted, part: Part) -> None:
    """A member index whose only part is this one."""
    index = changed(get_record(built.store, built.release.objects.member_index, MemberIndex), parts=(part,))
    objects = changed(built.release.objects, member_index=unversioned(put_record(built.store, index)))
    built.release = changed(built.release, objects=objects)


def with_parts_key(built: Encrypted, key: ShardKey | None) -> None:
    assert built.release.encryption is not None
    built.release = changed(built.release, encryption=changed(built.release.encryption, parts_key=key))


def index_part(built: Encrypted) -> Part:
    return get_record(built.store, built.release.objects.member_index, MemberIndex).parts[0]


def border_in_the_clear(built: Encrypted) -> None:
    with_index(built, changed(index_part(built), last_sample_id="sample-100000"))


def border_changed(built: Encrypted) -> None:
    sealed = index_part(built).last_sample_id or ""
    with_index(built, changed(index_part(built), last_sample_id=sealed[:-1] + ("0" if sealed[-1] != "0" else "1")))


def part_of_another_release(built: Encrypted) -> None:
    """The plain release's part in place of the encrypted one, under its border."""
    plain = get_record(built.store, built.plain.objects.member_index, MemberIndex).parts[0]
    with_index(built, changed(plain, last_sample_id=index_part(built).last_sample_id))


def said_to_be_plain(built: Encrypted) -> None:
    with_parts_key(built, None)


def key_of_a_shard(built: Encrypted) -> None:
    with_parts_key(built, built.release.shards[0].key)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (border_in_the_clear, {ErrorCode.ENCRYPTION_AAD}),
        (border_changed, {ErrorCode.ENCRYPTION_AAD}),
        (part_of_another_release, {ErrorCode.ENCRYPTION_PLAINTEXT}),
        (key_of_a_shard, {ErrorCode.ENCRYPTION_WRAPPED_KEY}),
        (said_to_be_plain, {ErrorCode.PARQUET_STRUCTURE}),
    ],
)
def test_parts_that_do_not_belong_are_found(change: Callable[[Encrypted], None], found: set[ErrorCode]) -> None:
    built = an_encrypted_release()
    change(built)
    report = built.report()
    assert report.verdict == "FAILED"
    assert found <= codes(report)


def test_a_part_is_bound_to_its_range() -> None:
    """Its very bytes under another border, sealed under the right key."""
    built = an_encrypted_release()
    key = index_key(built.release, Unlocked([built.key]))
    assert key is not None
    with_index(built, changed(index_part(built), last_sample_id=key.sealed_border("sample-999999")))
    assert ErrorCode.ENCRYPTION_AAD in codes(built.report())


def test_a_sealed_snapshot_is_verified_and_rechecked_with_its_key() -> None:
    built = an_encrypted_release(sealed=True)
    assert built.verified(built.root).report.verdict == "PASSED"
    fence(built, "tombstones", tombstone(1, sample_id=first(built, "_shardrel_sample_id")))
    world = replace(a_world(built.made), unlocked=Unlocked([built.key]))
    report = recheck_fences(built.store, built.root, gate_of(built), world=world).report
    assert (report.counts.tombstone_hits, [one.sample_digest for one in report.findings]) == (1, [None])


@pytest.mark.parametrize("by", ["sample", "text"])
def test_a_recheck_without_the_key_signs_nothing(by: str) -> None:
    built = an_encrypted_release(sealed=by == "sample")
    built.verified(built.root)
    if by == "sample":
        fence(built, "tombstones", tombstone(1, sample_id=first(built, "_shardrel_sample_id")))
    else:
        fence(built, "benchmarks", text_entry(1, "three words here", words=3))
    for keys, code in (([], ErrorCode.ENCRYPTION_READER), ([a_key()], ErrorCode.ENCRYPTION_KEY)):
        world = replace(a_world(built.made), unlocked=Unlocked(keys))
        with pytest.raises(RefusedError) as caught:
            recheck_fences(built.store, built.root, gate_of(built), world=world)
        assert caught.value.code == code


def test_a_snapshot_whose_key_was_exchanged_is_found() -> None:
    built = an_encrypted_release(sealed=True)
    snapshot = built.snapshot
    declared = snapshot.encryption
    assert declared is not None
    exchanged: Encryption = changed(declared, parts_key=built.release.shards[0].key)
    described = put_record(built.store, changed(snapshot, encryption=exchanged))
    objects = changed(built.release.objects, snapshot=described)
    built.release = changed(built.release, objects=objects, dataset_snapshot=described.digest)
    assert ErrorCode.ENCRYPTION_WRAPPED_KEY in codes(built.report())
    with pytest.raises(IntegrityError):
        snapshot_key(changed(snapshot, encryption=exchanged), Unlocked([built.key]))
