"""Encrypted releases: what does not belong to whom, each by its own code, in the verifier and in the loader."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet.encryption as parquet
import pytest
from msgspec.structs import replace

from shardrel.data.encryption import ReleaseLocks
from shardrel.data.shards import count_split, open_shard
from shardrel.errors import ErrorCode, RefusedError, ShardrelError
from shardrel.store.layout import attestation_prefix
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.key_files import FileKey
from tests.support.encrypted import Encrypted, a_key, an_encrypted_release
from tests.support.release_builder import codes

Change = Callable[[Encrypted], None]


def swapped_keys(built: Encrypted) -> None:
    one, two = (shard.key for shard in built.release.shards)
    built.entry(0, key=two)
    built.entry(1, key=one)


def swapped_objects(built: Encrypted) -> None:
    """Two shards change places with their keys; whoever moves an object has to move its key."""
    one, two = built.release.shards
    for number, other in ((0, two), (1, one)):
        stored = {"digest": other.digest, "size": other.size, "object_version": other.object_version}
        built.entry(number, **stored)


def plain_object(built: Encrypted) -> None:
    built.put_shard(0, built.encoded(built.shard_table(0)))


def plain_footer(built: Encrypted) -> None:
    lock = built.lock(0)
    sealed = parquet.create_encryption_properties(
        lock.data_key.key, aad_prefix=lock.aad_prefix, store_aad_prefix=False, plaintext_footer=True
    )
    built.put_shard(0, built.encoded(built.shard_table(0), encryption_properties=sealed))


def other_prefix(built: Encrypted) -> None:
    built.put_shard(0, built.encrypt_anew(0, built.shard_table(0), aad_prefix=built.lock(1).aad_prefix))


def foreign_key(built: Encrypted) -> None:
    assert built.release.shards[0].key is not None
    built.entry(0, key=replace(built.release.shards[0].key, check="0" * 64))


def no_key(built: Encrypted) -> None:
    built.entry(0, key=None)


def other_snapshot(built: Encrypted) -> None:
    """The same release under another snapshot's digest: every object was bound to the first one."""
    built.release = replace(built.release, dataset_snapshot="sha256:" + "0" * 64)


FAILURES: list[tuple[Change, ErrorCode]] = [
    (swapped_keys, ErrorCode.ENCRYPTION_WRAPPED_KEY),
    (no_key, ErrorCode.ENCRYPTION_WRAPPED_KEY),
    (foreign_key, ErrorCode.ENCRYPTION_KEY_CHECK),
    (plain_object, ErrorCode.ENCRYPTION_PLAINTEXT),
    (plain_footer, ErrorCode.ENCRYPTION_PLAINTEXT),
    (swapped_objects, ErrorCode.ENCRYPTION_AAD),
    (other_prefix, ErrorCode.ENCRYPTION_AAD),
    (other_snapshot, ErrorCode.ENCRYPTION_AAD),
]


def loaded(built: Encrypted, number: int = 0) -> ErrorCode | None:
    """What the loader says of a shard."""
    shard, locks = built.release.shards[number], ReleaseLocks(release=built.release, unlocked=Unlocked(built.keys))
    found: list[ErrorCode | None] = []
    for split in (None, "test"):
        try:
            data = built.shard_bytes(number)
            count_split(data, shard, split, locks.of(shard))
            open_shard(data, shard, built.schema.fields, split, locks.of(shard))
            found.append(None)
        except ShardrelError as err:
            found.append(err.code)
    assert found[0] == found[1]
    return found[0]


def test_an_encrypted_release_passes_and_holds_what_the_plain_one_holds() -> None:
    built = an_encrypted_release()
    assert built.report().verdict == "PASSED"
    assert loaded(built) is None
    plain, sealed = built.plain, built.release
    for name in ("logical_digest", "member_set_digest", "records", "tokens", "logical_bytes", "id"):
        assert [getattr(s, name) for s in plain.shards] == [getattr(s, name) for s in sealed.shards]
    assert plain.ordered_member_tuple_root == sealed.ordered_member_tuple_root
    assert not {shard.digest for shard in plain.shards} & {shard.digest for shard in sealed.shards}


@pytest.mark.parametrize(("change", "code"), FAILURES, ids=[change.__name__ for change, _ in FAILURES])
def test_what_does_not_belong_is_refused_by_its_code(change: Change, code: ErrorCode) -> None:
    built = an_encrypted_release()
    change(built)
    report = built.report()
    assert report.verdict == "FAILED"
    assert code in codes(report)
    assert {found for found in codes(report) if found.startswith("encryption.")} == {code}
    assert loaded(built) == code


def wrong_version(key: FileKey) -> list[FileKey]:
    return [FileKey(version="2", key=key.key)]


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        (lambda key: [], ErrorCode.ENCRYPTION_READER),
        (lambda key: [a_key()], ErrorCode.ENCRYPTION_KEY),
        (wrong_version, ErrorCode.ENCRYPTION_KEY_VERSION),
    ],
    ids=["reader", "key", "version"],
)
def test_a_reader_without_the_key_judges_nothing(keys: Callable[[FileKey], list[FileKey]], code: ErrorCode) -> None:
    built = an_encrypted_release()
    built.keys = list(keys(built.key))
    before = list(built.store.list(attestation_prefix(built.root)))
    with pytest.raises(RefusedError) as caught:
        built.verified(built.root)
    assert caught.value.code == code
    assert list(built.store.list(attestation_prefix(built.root))) == before
    assert loaded(built) == code


def test_several_keys_may_be_given() -> None:
    built = an_encrypted_release()
    built.keys = [a_key(), *wrong_version(built.key), built.key]
    assert built.report().verdict == "PASSED"


def test_a_stored_prefix_is_refused() -> None:
    """Then a reader that is told nothing would accept the file wherever it lies."""
    built = an_encrypted_release()
    lock = built.lock(0)
    sealed = parquet.create_encryption_properties(lock.data_key.key, aad_prefix=lock.aad_prefix, store_aad_prefix=True)
    built.put_shard(0, built.encoded(built.shard_table(0), encryption_properties=sealed))
    assert ErrorCode.ENCRYPTION_AAD in codes(built.report())


def test_an_encrypted_object_in_a_plain_release_is_none() -> None:
    built = an_encrypted_release()
    number, sealed = 0, built.shard_bytes(0)
    built.release = built.plain
    built.put_shard(number, sealed)
    assert ErrorCode.PARQUET_STRUCTURE in codes(built.report())
    assert loaded(built) == ErrorCode.PARQUET_STRUCTURE


def test_other_records_under_the_right_key_are_found_as_in_a_plain_release() -> None:
    built = an_encrypted_release()
    table = built.shard_table(0)
    one = table.set_column(4, table.schema.field(4), pa.array(["other"] * table.num_rows))
    built.put_shard(0, built.encrypt_anew(0, one))
    found = codes(built.report())
    assert {ErrorCode.LOGICAL_DIGEST, ErrorCode.MEMBER_CONTENT} <= found


def test_findings_of_an_encrypted_release_hold_no_digest_of_an_id() -> None:
    built = an_encrypted_release()
    table = built.shard_table(0)
    built.put_shard(0, built.encrypt_anew(0, table.slice(1)), **built.true_entry(table.slice(1)))
    report = built.report()
    assert ErrorCode.MEMBER_MISSING in codes(report)
    assert not [finding for finding in report.findings if finding.sample_digest is not None]


@pytest.mark.parametrize("checksums", [False])
def test_a_page_without_a_checksum_is_found_under_encryption_too(checksums: bool) -> None:
    built = an_encrypted_release()
    built.put_shard(0, built.encrypt_anew(0, built.shard_table(0), write_page_checksum=checksums))
    assert ErrorCode.PARQUET_PAGE_CHECKSUM_ABSENT in codes(built.report())


def test_an_encrypted_page_that_expands_is_refused_before_it_is_decoded() -> None:
    """The bounds of a plain shard hold: they are checked on page headers that the verifier opens itself."""
    built = an_encrypted_release()
    table = built.shard_table(0)
    bomb = table.set_column(4, table.schema.field(4), pa.array(["0" * 1_000_000] * table.num_rows))
    data = built.encrypt_anew(0, bomb, use_dictionary=False, column_encoding=None)
    assert len(data) < 200_000
    built.put_shard(0, data)
    assert ErrorCode.PARQUET_EXPANSION in codes(built.report())
