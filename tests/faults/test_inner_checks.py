"""Each inner check is the one that catches a change made for it.

Storage digests, sizes, totals, signatures and (where the check lies deeper) what a shard's entry declares are
made right again after every change, so that nothing further out can catch it.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from publisher.provenance import Build, provenance
from shardrel.digest import digest_of
from shardrel.drills.forge import parquet_bytes, with_first, with_values
from shardrel.errors import ErrorCode
from shardrel.gate.attestations import attach
from shardrel.records.descriptor import PARQUET
from shardrel.records.release import Release
from shardrel.records.report import Report
from shardrel.records.snapshot import MemberIndex
from shardrel.store.objects import get_by_digest, get_record, put, put_record, unversioned
from tests.support.publishing import NOW
from tests.support.release_builder import RECORDS, Built, a_release, codes

OTHER = digest_of(b"something else")


def assert_only(report: Report, *expected: ErrorCode) -> None:
    """The report fails for exactly these reasons."""
    assert report.verdict == "FAILED"
    assert codes(report) == set(expected)


def test_an_unchanged_release_passes() -> None:
    report = a_release().report()
    assert (report.verdict, report.findings) == ("PASSED", ())
    assert report.records == RECORDS


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7])
def test_page_checksum_catches_a_flipped_bit_in_plain_values(place: float) -> None:
    built = a_release()
    data = bytearray(
        parquet_bytes(built.shard_table(0), compression="none", use_dictionary=False, write_statistics=False)
    )
    text = bytes(data).index(b"text number")
    data[text + int(place * 100)] ^= 0x20
    built.put_shard(0, bytes(data))
    assert ErrorCode.PARQUET_PAGE_CHECKSUM in codes(built.report())


def test_pages_without_checksum() -> None:
    built = a_release()
    built.rewrite(0, lambda table: table, write_page_checksum=False)
    assert ErrorCode.PARQUET_PAGE_CHECKSUM_ABSENT in codes(built.report())


def test_footer_that_promises_other_rows() -> None:
    built = a_release()
    data = built.shard_bytes(0)
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rows = built.release.shards[0].records
    footer = bytearray(data[at:])
    # Thrift: field 3 (num_rows) is an i64 after the schema; the row count as a zigzag varint is one byte here.
    place = footer.index(bytes([0x16, 2 * rows]))
    footer[place + 1] ^= 2
    built.put_shard(0, data[:at] + bytes(footer))
    assert codes(built.report()) & {ErrorCode.PARQUET_FOOTER, ErrorCode.RECORD_COUNT}


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[: len(data) // 2],
        lambda data: data + data,
        lambda data: data[:-8] + (2**31).to_bytes(4, "little") + b"PAR1",
        lambda data: b"<html>the proxy is tired</html>",
        lambda data: b"PAR1PAR1",
    ],
)
def test_structure(broken: Callable[[bytes], bytes]) -> None:
    built = a_release()
    built.put_shard(0, broken(built.shard_bytes(0)))
    assert codes(built.report()) & {ErrorCode.PARQUET_STRUCTURE, ErrorCode.PARQUET_FOOTER}


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.rename_columns(["score2" if name == "score" else name for name in table.column_names]),
        lambda table: table.drop_columns(["score"]).append_column(table.schema.field("score"), table.column("score")),
        lambda table: table.append_column("more", table.column("score")),
        lambda table: table.set_column(
            table.schema.get_field_index("score"), "score", table.column("score").cast(pa.float32(), safe=False)
        ),
        lambda table: table.set_column(
            4, pa.field("text", pa.string(), nullable=not table.schema.field(4).nullable), table.column(4)
        ),
    ],
)
def test_record_schema(change: Callable[[Any], Any]) -> None:
    built = a_release()
    built.put_shard(0, parquet_bytes(change(built.shard_table(0))))
    assert ErrorCode.RECORD_SCHEMA in codes(built.report())


def test_an_embedded_arrow_schema() -> None:
    built = a_release()
    built.rewrite(0, lambda table: table, store_schema=True)
    assert ErrorCode.RECORD_SCHEMA in codes(built.report())


def test_record_count() -> None:
    built = a_release()
    entry = built.release.shards[0]
    built.declare(0, replace(entry, records=entry.records + 1))
    assert ErrorCode.RECORD_COUNT in codes(built.report())


def test_token_count() -> None:
    built = a_release()
    entry = built.release.shards[0]
    built.declare(0, replace(entry, tokens=entry.tokens + 1))
    assert_only(built.report(), ErrorCode.TOKEN_COUNT)


@pytest.mark.parametrize("by", [-1, 1])
def test_logical_bytes(by: int) -> None:
    built = a_release()
    entry = built.release.shards[0]
    built.declare(0, replace(entry, logical_bytes=entry.logical_bytes + by))
    assert_only(built.report(), ErrorCode.LOGICAL_BYTES)


def test_logical_digest() -> None:
    built = a_release()
    built.declare(0, replace(built.release.shards[0], logical_digest=OTHER))
    assert_only(built.report(), ErrorCode.LOGICAL_DIGEST)


def test_member_set_digest() -> None:
    built = a_release()
    built.declare(0, replace(built.release.shards[0], member_set_digest=OTHER))
    assert_only(built.report(), ErrorCode.MEMBER_SET_DIGEST)


def test_order_of_records() -> None:
    built = a_release()
    built.rewrite(0, lambda table: table.take(pa.array(range(table.num_rows))[::-1]))
    # The member index says where records lie, so it is wrong too.
    assert_only(built.report(), ErrorCode.RECORD_ORDER, ErrorCode.MEMBER_INDEX)


def test_content_substituted() -> None:
    built = a_release()
    built.rewrite(0, with_first("score", -1.0))
    report = built.report()
    assert_only(report, ErrorCode.MEMBER_CONTENT, ErrorCode.ORDERED_ROOT, ErrorCode.MEMBER_INDEX)
    assert report.counts.substituted == 1


@pytest.mark.parametrize(
    ("column", "code", "count"),
    [
        ("_shardrel_source_id", ErrorCode.MEMBER_SOURCE_ID, "substituted"),
        ("_shardrel_source_version", ErrorCode.MEMBER_SOURCE_VERSION, "substituted"),
        ("_shardrel_split", ErrorCode.MEMBER_SPLIT, "split_conflict"),
    ],
)
def test_tuple_field_substituted(column: str, code: ErrorCode, count: str) -> None:
    built = a_release()
    built.rewrite(0, with_first(column, "other"))
    report = built.report()
    # The tuple that came of it belongs, as it happens, to the other shard.
    expected = {code, ErrorCode.ORDERED_ROOT, ErrorCode.MEMBER_INDEX, ErrorCode.ROOT_SHARDS}
    if column == "_shardrel_split":
        expected.add(ErrorCode.ROOT_TOTALS)
    assert codes(report) == expected
    assert getattr(report.counts, count) == 1
    finding = next(finding for finding in report.findings if finding.code == code)
    assert (finding.subject, finding.row, finding.count) == (built.release.shards[0].id, 0, 1)


def test_missing() -> None:
    built = a_release()
    table = built.shard_table(0)
    lost = table.column("_shardrel_sample_id")[2].as_py()
    built.rewrite(0, lambda table: pa.concat_tables([table.slice(0, 2), table.slice(3)]))
    report = built.report()
    assert report.counts.missing == 1
    finding = next(finding for finding in report.findings if finding.code == ErrorCode.MEMBER_MISSING)
    assert finding.sample_digest == digest_of(lost.encode())
    assert finding.subject == built.release.dataset_snapshot


def test_extra() -> None:
    built = a_release()
    more = with_values(built.shard_table(0).slice(0, 1), "_shardrel_sample_id", ["zzz"])
    built.rewrite(0, lambda table: pa.concat_tables([table, more]))
    report = built.report()
    assert (report.counts.extra, report.counts.missing) == (1, 0)


def test_extra_in_the_middle() -> None:
    built = a_release()
    more = with_values(built.shard_table(0).slice(0, 1), "_shardrel_sample_id", ["aaa"])
    built.rewrite(0, lambda table: pa.concat_tables([more, table]))
    report = built.report()
    assert (report.counts.extra, report.counts.missing, report.counts.duplicate) == (1, 0, 0)


def test_duplicate() -> None:
    built = a_release()
    built.rewrite(0, lambda table: pa.concat_tables([table.slice(0, 1), table]))
    report = built.report()
    assert (report.counts.duplicate, report.counts.extra, report.counts.missing) == (1, 0, 0)


def test_duplicate_in_another_shard() -> None:
    built = a_release()
    copy = built.shard_table(0).slice(3, 1)

    def mixed(table: Any) -> Any:
        both = pa.concat_tables([table, copy])
        return both.take(pc.sort_indices(both.column("_shardrel_sample_id")))

    built.rewrite(1, mixed)
    report = built.report()
    assert (report.counts.duplicate, report.counts.extra, report.counts.missing) == (1, 0, 0)


def test_one_replaced_by_another_id() -> None:
    built = a_release()
    built.rewrite(0, with_first("_shardrel_sample_id", "aaa"))
    report = built.report()
    assert (report.counts.extra, report.counts.missing) == (1, 1)


def test_swapped_contents() -> None:
    built = a_release()
    built.rewrite(0, lambda table: with_values(table, "score", [*table.column("score").to_pylist()[::-1]]))
    report = built.report()
    assert report.counts.substituted == built.release.shards[0].records // 2 * 2


def test_ordered_root() -> None:
    built = a_release()
    built.release = replace(built.release, ordered_member_tuple_root=OTHER)
    built.release = replace(built.release, objects=_index_of(built, OTHER))
    assert_only(built.report(), ErrorCode.ORDERED_ROOT)


def _index_of(built: Built, root: str) -> Any:
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    descriptor = put_record(built.store, replace(index, ordered_member_tuple_root=root))
    return replace(built.release.objects, member_index=unversioned(descriptor))


@pytest.mark.parametrize("name", ["shards", "records", "tokens", "stored_bytes", "logical_bytes", "splits"])
def test_totals(name: str) -> None:
    built = a_release()
    totals = built.release.totals
    value = {} if name == "splits" else getattr(totals, name) + 1
    built.release = replace(built.release, totals=replace(totals, **{name: value}))
    report = built.report()
    # The member index holds as many records as the release: a wrong total disagrees with it too.
    assert codes(report) - {ErrorCode.MEMBER_INDEX} == {ErrorCode.ROOT_TOTALS}


def test_member_index_that_names_another_row() -> None:
    built = a_release()
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    part = index.parts[0]
    table = pa.parquet.read_table(pa.BufferReader(get_by_digest(built.store, part.object.digest)))
    rows = table.column("row").to_pylist()
    data = parquet_bytes(with_values(table, "row", [rows[0] + 1, *rows[1:]]))
    parts = (replace(part, object=unversioned(put(built.store, data, PARQUET)[0])), *index.parts[1:])
    descriptor = unversioned(put_record(built.store, replace(index, parts=parts)))
    built.release = replace(built.release, objects=replace(built.release.objects, member_index=descriptor))
    assert_only(built.report(), ErrorCode.MEMBER_INDEX)


def test_member_index_with_other_blocks_of_the_tree() -> None:
    built = a_release()
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    descriptor = unversioned(put_record(built.store, replace(index, block_roots=(*index.block_roots, OTHER))))
    built.release = replace(built.release, objects=replace(built.release.objects, member_index=descriptor))
    assert_only(built.report(), ErrorCode.MEMBER_INDEX)


def _dropped_shard(release: Release) -> Release:
    return replace(release, shards=release.shards[:1])


def _swapped_shards(release: Release) -> Release:
    return replace(release, shards=release.shards[::-1])


def _twice(release: Release) -> Release:
    return replace(release, shards=(*release.shards, release.shards[0]))


@pytest.mark.parametrize("change", [_dropped_shard, _swapped_shards, _twice])
def test_shard_list(change: Callable[[Release], Release]) -> None:
    built = a_release()
    built.release = change(built.release)
    assert ErrorCode.ROOT_SHARDS in codes(built.report())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"dataset": "another"}, ErrorCode.ROOT_DATASET),
        ({"tombstone_watermark": 7}, ErrorCode.ROOT_AHEAD),
        ({"benchmark_fence": 7}, ErrorCode.ROOT_AHEAD),
        ({"dataset_snapshot": OTHER}, ErrorCode.ROOT_SNAPSHOT),
        ({"token_column": None}, ErrorCode.ROOT_SNAPSHOT),
        ({"text_columns": ("text",)}, ErrorCode.ROOT_SNAPSHOT),
        ({"record_schema": OTHER}, ErrorCode.MEMBER_SCHEMA),
    ],
)
def test_manifest_against_gate_and_snapshot(change: dict[str, Any], code: ErrorCode) -> None:
    built = a_release()
    built.release = replace(built.release, **change)
    assert code in codes(built.report())


def test_absent_exact_version() -> None:
    built = a_release()
    built.declare(0, replace(built.release.shards[0], object_version="no-such-version"))
    report = built.report()
    assert ErrorCode.STORAGE_ABSENT in codes(report)
    assert report.counts.missing == built.release.shards[0].records


def test_provenance_absent() -> None:
    built = a_release()
    built.release = replace(built.release, ordered_member_tuple_root=OTHER)
    root = built.seal(with_provenance=False)
    assert ErrorCode.PROVENANCE_ABSENT in codes(built.verified(root).report)


def test_provenance_of_another_snapshot() -> None:
    built = a_release()
    declared = built.release
    built.release = replace(declared, dataset_snapshot=OTHER)
    built.seal()
    root = built.seal(with_provenance=False)
    assert ErrorCode.PROVENANCE_INVALID not in codes(built.verified(root).report)
    built.release = replace(declared, token_column=None)
    root = put_record(built.store, built.release).digest
    build = Build(snapshot=OTHER, parameters={}, sources=[], publication="other", started_on=NOW, finished_on=NOW)
    attach(built.store, root, provenance(root, declared.dataset, build, built.made.keys["publisher"]))
    assert ErrorCode.PROVENANCE_INVALID in codes(built.verified(root).report)


def test_provenance_by_another_key() -> None:
    built = a_release()
    built.release = replace(built.release, token_column=None)
    root = put_record(built.store, built.release).digest
    build = Build(
        snapshot=built.release.dataset_snapshot,
        parameters={},
        sources=[],
        publication="other",
        started_on=NOW,
        finished_on=NOW,
    )
    attach(built.store, root, provenance(root, built.release.dataset, build, built.made.keys["approver"]))
    assert ErrorCode.PROVENANCE_ABSENT in codes(built.verified(root).report)


def test_absent_and_broken_roots() -> None:
    built = a_release()
    assert codes(built.verified(OTHER).report) == {ErrorCode.STORAGE_ABSENT}
    broken = put(built.store, b'{"a": 1}', "application/json")[0].digest
    assert codes(built.verified(broken).report) == {ErrorCode.FORMAT_NOT_A_RECORD}
    loose = put(built.store, get_by_digest(built.store, built.root) + b"\n", "application/json")[0].digest
    assert codes(built.verified(loose).report) == {ErrorCode.FORMAT_NOT_CANONICAL}
