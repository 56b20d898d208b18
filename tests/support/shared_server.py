"""One S3 server for all pytest-xdist workers, on loopback.

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
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ACCESS_KEY = "testkey"
SECRET_KEY = "testsecret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a server is started.

    Attributes:
        environment: Laid over this process's.
        patience: Seconds until it must be usable.
    """

    command: list[str]
    environment: dict[str, str]
    endpoint_url: str
    patience: float = 60


Prepare = Callable[[Path], Launch]
"""Gets an empty folder for the server's data."""


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
def shared_server(base: Path, prepare: Prepare) -> Iterator[S3Server]:
    """The server of this folder: started by whoever comes first, killed by whoever goes last."""
    base.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        users = stack.enter_context((base / "users").open("w"))
        with _mutex(base):
            fcntl.flock(users, fcntl.LOCK_SH)
            server = _running(base) or _start(base, prepare)
        yield server
        with _mutex(base):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                for process in _children.values():
                    process.returncode = 0  # somebody else ends it; Python need not warn that it lives on
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


def _start(base: Path, prepare: Prepare) -> S3Server:
    data = base / f"data-{uuid.uuid4().hex[:8]}"
    data.mkdir()
    launch = prepare(data)
    with (data / "log").open("w") as log:
        process = subprocess.Popen(
            launch.command,
            stdout=log,
            stderr=log,
            cwd=data,
            env={**os.environ, **launch.environment},
            start_new_session=True,
        )
    try:
        names = make_buckets(launch, process)
    except BaseException as err:
        kill_all(process.pid)
        process.wait()
        raise RuntimeError(f"the server did not come up: {(data / 'log').read_text()[-2000:]}") from err
    server = S3Server(endpoint_url=launch.endpoint_url, **names)
    facts = {"pid": process.pid, "endpoint_url": launch.endpoint_url, **names}
    (base / "server.json").write_text(json.dumps(facts))
    _children[process.pid] = process
    return server


_children: dict[int, "subprocess.Popen[bytes]"] = {}


def kill_all(leader: int) -> None:
    """The server and what it started: it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _kill(base: Path) -> None:
    """SIGKILL: an orderly stop takes many seconds, and nothing of the data is kept."""
    pid = json.loads((base / "server.json").read_text())["pid"]
    kill_all(pid)
    (base / "server.json").unlink()
    if pid in _children:
        _children.pop(pid).wait()
    for folder in base.glob("data-*"):
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def make_buckets(launch: Launch, process: "subprocess.Popen[bytes]") -> dict[str, str]:
    """Make the buckets where they are absent, as soon as the server can; an object shows that it has a volume."""
    client = make_client(launch.endpoint_url)
    deadline = time.monotonic() + launch.patience
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
