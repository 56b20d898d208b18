"""Hosts of a small network, as Linux network namespaces on one bridge. Needs root and ``ip``."""

import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_NET = "10.213"
_OURS = 254


@dataclass(frozen=True)
class Host:
    """One of them.

    Attributes:
        address: In the small network.
        interface: Its only one but the loop-back.
    """

    name: str
    address: str
    interface: str = "eth0"

    @property
    def prefix(self) -> Sequence[str]:
        """Words before a command that is to run there."""
        return ["ip", "netns", "exec", self.name]

    def unplug(self) -> None:
        """Take its cable out: nothing is refused, nothing arrives."""
        _ip("-n", self.name, "link", "set", self.interface, "down")

    def plug(self) -> None:
        """Put it in again."""
        _ip("-n", self.name, "link", "set", self.interface, "up")


@contextmanager
def network(hosts: int, *, with_us: bool = False) -> Iterator[list[Host]]:
    """So many hosts that reach each other and nothing else; gone at the end.

    Args:
        hosts: How many.
        with_us: This machine has a cable into the network too.
    """
    tag = uuid.uuid4().hex[:8]  # the kernel takes its time to forget a name
    bridge, net = f"br{tag}", f"{_NET}.{int(tag[:2], 16)}"
    made: list[Host] = []
    _ip("link", "add", bridge, "type", "bridge")
    try:
        _ip("link", "set", bridge, "up")
        if with_us:
            _ip("addr", "add", f"{net}.{_OURS}/24", "dev", bridge)
        for number in range(hosts):
            host = Host(name=f"shardrel-{tag}-{number}", address=f"{net}.{number + 1}")
            _ip("netns", "add", host.name)
            made.append(host)
            _plug(host, bridge, f"v{tag}{number}")
        yield made
    finally:
        for host in made:
            _ip("netns", "del", host.name)
        _ip("link", "del", bridge)


def _plug(host: Host, bridge: str, end: str) -> None:
    _ip("link", "add", end, "type", "veth", "peer", "name", host.interface, "netns", host.name)
    _ip("link", "set", end, "master", bridge)
    _ip("link", "set", end, "up")
    _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", host.interface)
    _ip("-n", host.name, "link", "set", host.interface, "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def available() -> bool:
    """Whether this machine lets us make network namespaces that reach each other."""
    try:
        with network(1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
