"""The same data in a bucket: a SeaweedFS of this machine, with our release and every peer's own files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.loader_peers import COLUMN
from benchmarks.release import DATASET, Place, declare, publish_once
from shardrel.clock import now_utc
from shardrel.gate.call import Call
from shardrel.gate.init import init
from shardrel.store.open import open_store
from shardrel.store.probe import SHORT, probe
from shardrel.store.verdicts import keep
from shardrel.trust import keyring
from shardrel.trust.policy import default_policy
from tests.support.seaweed import seaweed
from tests.support.shared_server import shared_server

PEERS = ("mosaic", "webdataset", "litdata", "parquet")


@contextmanager
def bucket(folder: Path, kind: str, shards: int) -> Iterator[None]:
    """The data of a folder in a bucket, which the environment names while the block runs."""
    with shared_server(folder / "seaweed", seaweed) as server:
        before = dict(os.environ)
        place = f"{server.plain}/{folder.name}"
        os.environ.update(server.environment)
        # MosaicML Streaming asks for the address by another name.
        os.environ |= {"SHARDREL_BENCH_BUCKET": place, "S3_ENDPOINT_URL": server.endpoint_url}
        (folder / "aws-config").write_text("")  # botocore there reads no /dev/null
        os.environ["AWS_CONFIG_FILE"] = str(folder / "aws-config")
        try:
            _publish(folder, f"s3://{server.versioned}/{folder.name}", kind, shards)
            _upload(folder, server.plain, server.client())
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _publish(folder: Path, url: str, kind: str, shards: int) -> None:
    public = keyring.ensure(folder / "keys")
    store = open_store(url)
    keep(store, DATASET, probe(store, SHORT), now_utc())
    at = Place(store, {name: keyring.load(folder / "keys", name) for name in public})
    call = Call(signers=[at.keys["admin"]], recorded_at=now_utc(), operation_id=None, pending=None)
    init(store, DATASET, default_policy(public), call)
    snapshot = declare(at, folder / "source.arrow", "tokens" if kind == "tokens" else None)
    (folder / "root-s3").write_text(
        publish_once(at, snapshot, folder / "source.arrow", shards, packed=(COLUMN[kind],)).root
    )
    (folder / "url-s3").write_text(url)


def _upload(folder: Path, name: str, client: object) -> None:
    for peer in PEERS:
        for path in sorted(path for path in (folder / peer).rglob("*") if path.is_file()):
            key = f"{folder.name}/{path.relative_to(folder)}"
            client.upload_file(str(path), name, key)  # type: ignore[attr-defined]
