"""``shardrel publish``: shards, member index, root manifest and provenance, to staging."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel import clock
from shardrel.cli.access import full_digest, the_root, the_store_to_write
from shardrel.cli.arguments import Engine, Workers
from shardrel.cli.bulk import for_bulk
from shardrel.cli.changes import changes_table, in_short
from shardrel.cli.decryption import Decrypt, Encrypt, opened, unlocked
from shardrel.cli.fencing import selectors_upto
from shardrel.cli.output import Result, meter
from shardrel.cli.renames import read_renames
from shardrel.cli.settings import Settings
from shardrel.cli.signing import publishers, the_gate
from shardrel.cli.words import counted
from shardrel.errors import ErrorCode, InvalidInputError, NotFoundError, RefusedError

if TYPE_CHECKING:
    from publisher.options import PublishResult
    from shardrel.records.release import Compression
    from shardrel.records.snapshot import Snapshot
    from shardrel.store.port import Store

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX_SIZE = 1 << 53
_LEVELS = {"zstd": (1, 22), "gzip": (1, 9), "snappy": (1, 0), "lz4": (1, 0), "none": (1, 0)}
_DEFAULT_LEVELS = {"zstd": 3, "gzip": 6}


def publish(
    settings: Settings,
    snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Digest of the snapshot, whole.")],
    source: Annotated[list[str], typer.Option("--source", metavar="SOURCE", help="Where its records are; repeatable.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", show_default=False, help="More of them, as a shell makes of a glob."),
    ] = None,
    shards: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of shards.")] = None,
    shard_size: Annotated[
        str | None, typer.Option(metavar="BYTES", help="About how big a shard is, decoded, e.g. 64MiB.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sharding.")] = 0,
    compression: Annotated[
        str, typer.Option(metavar="CODEC", help="zstd:LEVEL, gzip:LEVEL, snappy, lz4, none.")
    ] = "zstd:3",
    packed: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Store the lists of numbers of a column as bytes; repeatable."),
    ] = None,
    previous: Annotated[
        str | None, typer.Option(metavar="ROOT", help="Compare the record schema with that of this root.")
    ] = None,
    renames: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Fields that have another name since, as JSON.")
    ] = None,
    encrypt: Encrypt = None,
    encrypt_index: Annotated[
        bool, typer.Option("--encrypt-index", help="Encrypt the member index too, which holds every sample id.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Write plain shards of a snapshot that is encrypted.")] = False,
    decrypt: Decrypt = None,
    workers: Workers = 2,
    engine: Engine = "local",
) -> Result:
    """Write a release of a snapshot. Interrupted and run again, it goes on; it ends at the same root."""
    for_bulk()
    from publisher.options import PublishOptions
    from publisher.partition import SHARD_BYTES
    from publisher.publish import World
    from publisher.publish import publish as write_release
    from shardrel.gate.refusals import as_error
    from shardrel.gate.schema_rule import judge

    if shards is not None and shard_size is not None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "say --shards or --shard-size, not both")
    digest = full_digest(snapshot)
    named = () if renames is None else read_renames(renames)
    size = SHARD_BYTES if shard_size is None else read_size(shard_size)
    codec = read_compression(compression)
    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    options = PublishOptions(
        shards=shards,
        seed=seed,
        compression=codec,
        workers=workers,
        previous=None if previous is None else the_root(previous, list(view.body.candidates)),
        renames=named,
        shard_bytes=size,
        packed=tuple(packed or ()),
        encrypt=opened(encrypt),
        encrypt_index=encrypt_index,
    )
    if previous is None and (refusal := judge(view.body, view.policy, None, None)) is not None:
        raise as_error(refusal)
    keys, releasers = publishers(settings, view.policy)
    declared = _declared(store, digest, settings)
    _check_meant(declared, settings.dataset, chosen=plain or encrypt is not None)
    fences = selectors_upto(store, view, declared.tombstone_watermark, declared.benchmark_fence)
    with meter("publish", quiet=settings.as_json) as progress:
        world = World(
            signer=keys[0],
            others=keys[1:],
            pinned_by=releasers,
            now=clock.now_utc,
            progress=progress,
            unlocked=unlocked(decrypt, options.encrypt),
        )
        selectors = fences.tombstones | fences.benchmarks
        done = write_release(store, digest, [*source, *(more or [])], options, fences=selectors, world=world)
    return _shown(done)


def _declared(store: "Store", digest: str, settings: Settings) -> "Snapshot":
    from shardrel.records.snapshot import Snapshot
    from shardrel.store.named import get_named

    try:
        return get_named(store, digest, Snapshot)
    except NotFoundError as err:
        raise NotFoundError(
            err.code,
            f"no such snapshot is in {settings.store}; run: shardrel snapshot SOURCE",
            snapshot=digest,
            **err.context,
        ) from err


def _check_meant(declared: "Snapshot", dataset: str, *, chosen: bool) -> None:
    if declared.dataset != dataset:
        # Its records would be left out by this gate's logs and pinned in the other one.
        raise RefusedError(
            ErrorCode.GATE_WRONG,
            "the snapshot is one of another dataset; name it with --dataset",
            dataset=declared.dataset,
            expected=dataset,
        )
    if declared.encryption is not None and not chosen:
        raise RefusedError(
            ErrorCode.ENCRYPTION_PLAINTEXT,
            "the snapshot is encrypted; say --encrypt KEYREF, or --plain if that is meant",
        )


def _shown(done: "PublishResult") -> Result:
    import msgspec

    verb = "is" if done.shards == 1 else "are"
    return Result(
        data={
            "root": done.root,
            "contentDigest": done.content_digest,
            "state": done.state,
            "shards": done.shards,
            "records": done.records,
            "excluded": done.excluded,
            "storedBytes": done.stored_bytes,
            "alreadyPresent": done.already_present,
            "schemaEvolution": None if done.evolution is None else msgspec.to_builtins(done.evolution),
        },
        headline=f"{counted(done.shards, 'shard')} with {counted(done.records, 'record')} {verb} {done.state}",
        facts=[
            ("root", done.root),
            ("content", done.content_digest),
            ("stored bytes", f"{done.stored_bytes:,}"),
            ("excluded", done.excluded),
            ("already there", done.already_present),
            *([] if done.evolution is None else [("record schema", in_short(done.evolution.changes))]),
        ],
        tables=[changes_table(done.evolution.changes)] if done.evolution and done.evolution.changes else [],
    )


def read_size(text: str) -> int:
    """A number of bytes: plain, or with K, M, G (also KiB, MiB, GiB), which are powers of 1,024.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    found = re.fullmatch(r"([1-9][0-9]{0,14}) ?([KMG]?)(?:i?B)?", text)
    size = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if not 0 < size < _MAX_SIZE:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "a size is a number of bytes such as 67108864 or 64MiB")
    return size


def read_compression(text: str) -> "Compression":
    """A codec, and its level where it has one.

    Raises:
        InvalidInputError: ``input.invalid``.
    """
    import msgspec

    from shardrel.records.release import Compression

    codec, _, level = text.partition(":")
    if codec not in _LEVELS:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"a codec is one of {', '.join(_LEVELS)}")
    low, high = _LEVELS[codec]
    if level and not (level.isascii() and level.isdigit() and low <= int(level) <= high):
        levels = f"levels {low} to {high}" if high else "no levels"
        raise InvalidInputError(ErrorCode.INPUT_INVALID, f"{codec} has {levels}")
    chosen = int(level) if level else _DEFAULT_LEVELS.get(codec)
    return msgspec.convert({"codec": codec, "level": chosen}, Compression)
