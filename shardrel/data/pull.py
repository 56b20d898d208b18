"""Fetch a release into a folder, every byte checked. Source: schemas/SPEC.md#root-manifest, #shards"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shardrel.canonical import json
from shardrel.clock import fresh_id
from shardrel.data.encryption import ReleaseLocks
from shardrel.data.plan import effective_split
from shardrel.data.shards import open_shard, shard_descriptor
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, InvalidInputError, unwritable
from shardrel.records.release import Release, Shard
from shardrel.records.schema import RecordSchema
from shardrel.store.objects import get, get_by_digest, get_record
from shardrel.store.port import Store
from shardrel.trust.key_encryption import Unlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What lies in the folder now.

    Attributes:
        present: Shards of it that lay there before, with the right bytes.
    """

    shards: int
    records: int
    bytes: int
    present: int = 0


def pull_release(
    store: Store,
    root: str,
    folder: Path,
    *,
    split: str | None,
    progress: Callable[[int, int], None],
    unlocked: Unlocked | None = None,
    ciphertext: bool = False,
) -> Pulled:
    """Fetch the shards of a release, or the records of one of its splits.

    Args:
        store: Where the release is.
        root: Its digest.
        folder: Where to.
        split: Null for the shards as they are. A split gives files with the payload columns of its records alone.
        progress: Told how many of how many shards are done.
        unlocked: Keys of an encrypted release, whose records are then written as those of a split are.
        ciphertext: Fetch the shards of an encrypted release as they are stored, without a key.

    Raises:
        NotFoundError: ``storage.object-absent``.
        IntegrityError: when bytes are not what the root manifest says.
        RefusedError: ``encryption.reader``, ``encryption.key``, ``encryption.key-version``.
        InvalidInputError: ``input.invalid`` for an unknown split, a folder that can't be written, one that holds
            another release or files of none, or a Parquet file which is no shard of this release: who reads the folder
            would take it for one.

    Effects: ``.release/root.json``, ``.release/record-schema.json`` and a file a shard, each created by a rename after it was checked;
        a file that is there with the right bytes is left alone, so an interrupted pull goes on. The file of a shard
        without a record of the split, which an earlier pull of another split left, is removed.
    """
    manifest = get_by_digest(store, root)
    release = json.decode(manifest, Release)
    effective_split(release, split)
    locks = _locks(release, unlocked or Unlocked(), split, ciphertext=ciphertext)
    schema = get_record(store, release.objects.record_schema, RecordSchema)
    _check_folder(folder, root, release)
    _write(folder / ".release" / "root.json", manifest)
    _write(folder / ".release" / "record-schema.json", json.encode(schema))
    sizes: list[tuple[int, int]] = []
    present = 0
    for shard in release.shards:
        if split is None and locks is None and _is_there(folder, shard):
            sizes.append((shard.records, shard.size))
            present += 1
        else:
            sizes.append(_pull_shard(store, shard, folder, schema, split, locks))
        progress(len(sizes), len(release.shards))
    kept = [size for size in sizes if size[1]]
    return Pulled(
        shards=len(kept),
        records=sum(records for records, _ in kept),
        bytes=sum(size for _, size in kept),
        present=present,
    )


def _is_there(folder: Path, shard: Shard) -> bool:
    target = folder / f"{shard.id}.parquet"
    return target.exists() and target.stat().st_size == shard.size and digest_of(target.read_bytes()) == shard.digest


def _locks(release: Release, unlocked: Unlocked, split: str | None, *, ciphertext: bool) -> ReleaseLocks | None:
    """What shards are opened with; None for those that are written as they are stored, or are plain."""
    if release.encryption is None:
        return None
    if not ciphertext:
        unlocked.check(release.encryption)
        return ReleaseLocks(release=release, unlocked=unlocked)
    if split is not None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "the records of a split cannot be told without a key")
    return None


def _pull_shard(
    store: Store, shard: Shard, folder: Path, schema: RecordSchema, split: str | None, locks: ReleaseLocks | None
) -> tuple[int, int]:
    """Records and bytes of the file that a shard became; no bytes where it has no record of the split."""
    target = folder / f"{shard.id}.parquet"
    if split is None and locks is None:
        _write(target, get(store, shard_descriptor(shard)))
        return shard.records, shard.size
    lock = None if locks is None else locks.of(shard)
    opened = open_shard(get(store, shard_descriptor(shard)), shard, schema.fields, split, lock)
    table = opened.table if opened.rows is None else opened.table.take(pa.array(opened.rows))
    if table.num_rows == 0:
        target.unlink(missing_ok=True)
        return 0, 0
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue()
    _write(target, data)
    return table.num_rows, data.size


def _check_folder(folder: Path, root: str, release: Release) -> None:
    """The folder is ours alone: new, empty, or of an earlier pull of this root."""
    _check_owner(folder, root)
    ours = {f"{shard.id}.parquet" for shard in release.shards}
    strange = sorted(path.name for path in folder.glob("*.parquet") if path.name not in ours)
    if strange:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the folder holds a Parquet file that is no shard of this release; name another folder",
            path=str(folder / strange[0]),
            files=len(strange),
        )


def _check_owner(folder: Path, root: str) -> None:
    try:
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        manifest = folder / ".release" / "root.json"
        held = digest_of(manifest.read_bytes()) if manifest.exists() else root
    except OSError as err:
        raise unwritable(folder, err) from err
    if held != root:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the folder holds another release; name another folder",
            path=str(folder),
            holds=held,
            root=root,
        )
    seen = [name for name in names if not name.startswith(".")]
    if seen and ".release" not in names:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "the folder holds files that are of no release; name a new or an empty one",
            path=str(folder / seen[0]),
            files=len(seen),
        )


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{fresh_id()}.part")
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as err:
        raise unwritable(path, err) from err
