"""``shardrel snapshot``: declare what is in a dataset."""

from typing import Annotated, Any

import typer

from shardrel.cli.access import the_store_to_write
from shardrel.cli.arguments import Sources, Workers
from shardrel.cli.bulk import for_bulk
from shardrel.cli.decryption import Encrypt, opened
from shardrel.cli.fencing import selectors_upto
from shardrel.cli.output import Result, meter
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.cli.words import counted
from shardrel.errors import ErrorCode, InvalidInputError


def _column(text: str) -> Any:
    return typer.Option(metavar="COLUMN", help=text)


def _watermark(log: str) -> Any:
    return typer.Option(min=0, metavar="N", help=f"Up to where {log} count; without one: to the gate's fence.")


def snapshot(
    settings: Settings,
    sources: Sources,
    id_column: Annotated[str | None, _column("Sample ids; without one: <path>#<row>.")] = None,
    source_column: Annotated[str | None, _column("Source ids; without one: the file's path.")] = None,
    version_column: Annotated[str | None, _column("Source versions; without one: the file's digest.")] = None,
    split_column: Annotated[str | None, _column("Splits; without one: train.")] = None,
    token_column: Annotated[str | None, _column("Token lists, or their number; without one: 0.")] = None,
    text_column: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Screened for benchmarks; without one: all strings.")
    ] = None,
    tombstone_watermark: Annotated[int | None, _watermark("tombstones")] = None,
    benchmark_fence: Annotated[int | None, _watermark("benchmarks")] = None,
    apply_tombstones: Annotated[
        bool, typer.Option("--apply-tombstones", help="Leave out what the gate's logs name, and say how many.")
    ] = False,
    encrypt: Encrypt = None,
    workers: Workers = 2,
) -> Result:
    """Declare the membership of a dataset: every record, by id, source, content and split."""
    for_bulk()
    from publisher.snapshot import SnapshotOptions, make_snapshot
    from shardrel.records.snapshot import Columns

    if len(set(text_column or ())) < len(text_column or ()):
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a text column is named twice")
    store = the_store_to_write(settings)
    fences = selectors_upto(store, the_gate(settings, store), tombstone_watermark, benchmark_fence)
    options = SnapshotOptions(
        dataset=settings.dataset,
        columns=Columns(id=id_column, source=source_column, version=version_column, split=split_column),
        token_column=token_column,
        text_columns=None if not text_column else tuple(text_column),
        tombstone_watermark=fences.tombstone_watermark,
        benchmark_fence=fences.benchmark_fence,
        apply_tombstones=apply_tombstones,
        workers=workers,
        encrypt=opened(encrypt),
    )
    with meter("snapshot", quiet=settings.as_json) as progress:
        done = make_snapshot(
            store, sources, options, tombstones=fences.tombstones, benchmarks=fences.benchmarks, progress=progress
        )
    return Result(
        data={
            "snapshot": done.snapshot,
            "records": done.records,
            "recordSchema": done.record_schema,
            "tokens": done.tokens,
            "leftOut": done.left_out,
            "tombstoneWatermark": fences.tombstone_watermark,
            "benchmarkFence": fences.benchmark_fence,
        },
        headline=f"{counted(done.records, 'record')} {'is' if done.records == 1 else 'are'} declared",
        facts=[
            ("snapshot", done.snapshot),
            ("record schema", done.record_schema),
            ("tokens", f"{done.tokens:,}"),
            ("left out", done.left_out),
        ],
    )
