"""A real S3 server for tests: SeaweedFS from PyPI, on loopback, one for all pytest-xdist workers.

Each worker holds a shared lock on one file while it uses the server. Whoever can turn its lock into
an exclusive one is the last and kills the server, so that a crashed worker needs no bookkeeping.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ACCESS_KEY = "testkey"
SECRET_KEY = "testsecret"
_READY_SECONDS = 60
_PORTS = ("master", "volume", "filer", "master_grpc", "volume_grpc", "filer_grpc", "s3", "s3_grpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server and the two buckets that everybody shares, each test under its own prefix."""

    endpoint_url: str
    plain: str
    versioned: str

    @property
    def environment(self) -> dict[str, str]:
        """What an AWS client needs to reach the server."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def client(self) -> Any:
        """A plain boto3 client, for tests that look behind the adapter."""
        return make_client(self.endpoint_url)


def make_client(endpoint_url: str) -> Any:
    """A client that does not depend on the environment."""
    return boto3.session.Session(
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name="us-east-1"
    ).client(
        "s3",
        endpoint_url=endpoint_url,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=30),
    )


@contextmanager
def shared_server(base: Path) -> Iterator[S3Server]:
    """The server of this folder: started by whoever comes first, killed by whoever goes last."""
    base.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        users = stack.enter_context((base / "users").open("w"))
        with _mutex(base):
            fcntl.flock(users, fcntl.LOCK_SH)
            server = _running(base) or _start(base)
        yield server
        with _mutex(base):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            _kill(base)


@contextmanager
def _mutex(base: Path) -> Iterator[None]:
    with (base / "mutex").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        yield


def _running(base: Path) -> S3Server | None:
    try:
        facts = json.loads((base / "server.json").read_text())
        os.kill(facts.pop("pid"), 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return S3Server(**facts)


def _start(base: Path) -> S3Server:
    data = base / f"data-{uuid.uuid4().hex[:8]}"
    data.mkdir()
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    with (data / "log").open("w") as log:
        process = subprocess.Popen(_command(data, ports), stdout=log, stderr=log, cwd=data)
    endpoint_url = f"http://127.0.0.1:{ports['s3']}"
    try:
        names = _make_buckets(endpoint_url, process)
    except BaseException:
        process.kill()
        process.wait()
        raise
    server = S3Server(endpoint_url=endpoint_url, **names)
    facts = {"pid": process.pid, "endpoint_url": endpoint_url, **names}
    (base / "server.json").write_text(json.dumps(facts))
    _children[process.pid] = process
    return server


_children: dict[int, "subprocess.Popen[bytes]"] = {}


def _kill(base: Path) -> None:
    """SIGKILL: an orderly stop takes many seconds, and nothing of the data is kept."""
    pid = json.loads((base / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    (base / "server.json").unlink()
    if pid in _children:
        _children.pop(pid).wait()
    for folder in base.glob("data-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _command(data: Path, ports: dict[str, int]) -> list[str]:
    config = data / "s3.json"
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    config.write_text(json.dumps({"identities": [{"name": "admin", "credentials": credentials, "actions": actions}]}))
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    return [
        str(weed), "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}",
        "-master.telemetry=false", f"-master.port={ports['master']}", f"-volume.port={ports['volume']}",
        "-filer", f"-filer.port={ports['filer']}", f"-master.port.grpc={ports['master_grpc']}",
        f"-volume.port.grpc={ports['volume_grpc']}", f"-filer.port.grpc={ports['filer_grpc']}",
        f"-filer.localSocket={data / 'filer.sock'}", "-s3", f"-s3.port={ports['s3']}",
        f"-s3.port.grpc={ports['s3_grpc']}", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=64", "-volume.max=1000", "-s3.autoCreateBucket=false", "-volume.preStopSeconds=0",
        "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",
    ]  # fmt: skip


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _make_buckets(endpoint_url: str, process: "subprocess.Popen[bytes]") -> dict[str, str]:
    """Make the buckets as soon as the server can; a first object shows that it has a volume to write to."""
    client = make_client(endpoint_url)
    deadline = time.monotonic() + _READY_SECONDS
    names = {"plain": "plain", "versioned": "versioned"}
    while True:
        try:
            for bucket in names.values():
                _make_bucket(client, bucket)
                client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
            client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
            return names
        except Exception:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.1)


def _make_bucket(client: Any, bucket: str) -> None:
    if bucket not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
