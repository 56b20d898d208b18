"""Hosts of a small network that share nothing but an S3 server: each has a disk of its own, and so has the server."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.namespaces import Host, network
from tests.support.rank_processes import RankProcess, start_rank
from tests.support.seaweed import seaweed
from tests.support.shared_server import Launch, S3Server, kill_all, make_buckets
from tests.support.torchrun import ROOT

PORT = 29_400
_MOUNT = 'mount --bind "$1" "$2" && mount -t tmpfs none "$3" && shift 3 && exec "$@"'


@dataclass(frozen=True)
class DiskHost:
    """A host with a disk that no other one sees.

    Attributes:
        disk: Where the disk is, seen from the host; every host has its own there.
        kept: Where this machine keeps it; no host sees that.
    """

    host: Host
    disk: Path
    kept: Path

    @property
    def prefix(self) -> Sequence[str]:
        """Words before a command that is to run there."""
        paths = [str(self.kept), str(self.disk), str(self.kept.parent)]
        return [*self.host.prefix, "sh", "-c", _MOUNT, "host", *paths]


@dataclass
class ServerHost:
    """An S3 server on a host of its own, whose process can be stopped, killed and started again on the same data."""

    launch: Launch
    prefix: Sequence[str]
    data: Path
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def server(self) -> S3Server:
        """How clients find it."""
        return S3Server(endpoint_url=self.launch.endpoint_url, plain="plain", versioned="versioned")

    def start(self) -> None:
        """Start it, and wait until it takes and gives objects."""
        with (self.data / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *self.launch.command],
                stdout=log,
                stderr=log,
                cwd=self.data,
                env={**os.environ, **self.launch.environment},
                start_new_session=True,
            )
        make_buckets(self.launch, self.process)

    def freeze(self) -> None:
        """Requests arrive, and nothing is done about them."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """SIGKILL, at whatever it is doing."""
        if self.process is not None:
            kill_all(self.process.pid)
            self.process.wait()
            self.process = None


@dataclass(frozen=True)
class Cluster:
    """Hosts for ranks, and the server that they share."""

    hosts: list[Host]
    machine: ServerHost
    server: S3Server

    def disks(self, folder: Path) -> list[DiskHost]:
        """The hosts with an empty disk each, kept in a folder of this machine."""
        disk, disks = folder / "disk", folder / "disks"
        for path in (disk, *(disks / str(number) for number in range(len(self.hosts)))):
            path.mkdir(parents=True)
        return [DiskHost(one, disk, disks / str(number)) for number, one in enumerate(self.hosts)]


@contextmanager
def cluster(folder: Path, hosts: int) -> Iterator[Cluster]:
    """All of it; gone at the end."""
    data = folder / "server"
    data.mkdir()
    with network(hosts + 1, with_us=True) as made:
        *workers, last = made
        machine = ServerHost(seaweed(data, last.address), last.prefix, data)
        try:
            machine.start()
            yield Cluster(workers, machine, machine.server)
        finally:
            machine.kill()


@contextmanager
def job(
    hosts: Sequence[DiskHost], server: S3Server, words: Sequence[object], own: Mapping[int, Sequence[object]]
) -> Iterator[list[RankProcess]]:
    """A rank on each host; whoever still runs at the end of the block is killed.

    Args:
        hosts: The first has the rendezvous store.
        server: Their S3 server.
        words: The script, below ``tests/distributed``, and its arguments.
        own: Further arguments of single ranks.
    """
    script, *rest = words
    ranks: list[RankProcess] = []
    try:
        for rank, one in enumerate(hosts):
            ranks.append(
                start_rank(
                    ROOT / "tests" / "distributed" / str(script),
                    rank,
                    len(hosts),
                    [*rest, *own.get(rank, ())],
                    port=PORT,
                    host=hosts[0].host.address,
                    interface=one.host.interface,
                    prefix=one.prefix,
                    environment=server.environment,
                )
            )
        yield ranks
    finally:
        for running in ranks:
            if running.process.poll() is None:
                running.signal(signal.SIGKILL)
            running.process.communicate()


def go(rank: RankProcess) -> None:
    """Let a rank go on that waits for a line."""
    assert rank.process.stdin is not None
    rank.process.stdin.write("\n")
    rank.process.stdin.flush()
