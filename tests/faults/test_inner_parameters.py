"""What a root declares of its shards' stored form is checked: releases that nothing else gives away.

All digests, totals and signatures are made right again; the records are those that were declared.
"""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from shardrel.errors import ErrorCode
from shardrel.records.release import ColumnEncoding, Compression
from tests.support.release_builder import a_release, codes
from verifier import structure


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "snappy"},
        {"use_dictionary": False, "column_encoding": None},
        {"row_group_size": 7},
        {"data_page_version": "2.0"},
        {"version": "1.0"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_shard_that_is_stored_in_another_way_than_declared(options: dict[str, Any]) -> None:
    built = a_release()
    if "compression" in options:
        options["compression_level"] = None
    built.rewrite(0, lambda table: table, **options)
    report = built.report()
    assert codes(report) == {ErrorCode.PARQUET_PARAMETERS}
    assert {finding.subject for finding in report.findings} == {built.release.shards[0].id}


@pytest.mark.parametrize(
    "change",
    [
        {"row_group_records": 7},
        {"columns": ()},
        {"data_page_version": "2.0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_manifest_that_declares_another_form(change: dict[str, Any]) -> None:
    built = a_release()
    built.release = replace(built.release, serializer=replace(built.release.serializer, **change))
    assert codes(built.report()) == {ErrorCode.PARQUET_PARAMETERS}


def test_a_manifest_that_declares_another_codec() -> None:
    built = a_release()
    built.release = replace(built.release, compression=Compression(codec="gzip", level=None))
    assert codes(built.report()) == {ErrorCode.PARQUET_PARAMETERS}


def test_a_manifest_that_declares_another_encoding_of_one_column() -> None:
    built = a_release()
    first, *others = built.release.serializer.columns
    lying: ColumnEncoding = replace(first, dictionary=not first.dictionary, encoding="PLAIN")
    serializer = replace(built.release.serializer, columns=(lying, *others))
    built.release = replace(built.release, serializer=serializer)
    report = built.report()
    assert codes(report) == {ErrorCode.PARQUET_PARAMETERS}
    assert {finding.count for finding in report.findings} == {1}


def test_what_is_stored_otherwise_is_told_beside_what_else_is_wrong() -> None:
    built = a_release()
    built.rewrite(
        0,
        lambda table: pa.concat_tables([table.slice(0, 1), table.slice(2)]),
        compression="gzip",
        compression_level=None,
    )
    assert codes(built.report()) >= {ErrorCode.PARQUET_PARAMETERS, ErrorCode.MEMBER_MISSING}


def test_pages_of_a_row_group_that_are_larger_together_than_pages_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is sound but for that: its members are missing since the shards are not read."""
    built = a_release()
    monkeypatch.setattr(structure, "MAX_PAGES", 1000)
    report = built.report()
    assert codes(report) == {ErrorCode.PARQUET_EXPANSION, ErrorCode.MEMBER_MISSING, ErrorCode.MEMBER_INDEX}
    subjects = {finding.subject for finding in report.findings if finding.code == ErrorCode.PARQUET_EXPANSION}
    assert subjects == {shard.id for shard in built.release.shards}
