"""Ceph's S3 gateway from Debian: a production server that keeps some promises and not others.

It ignores conditions in versioned buckets and wants ETags without quotes (version 16), so it shows what the probe
is for. Only ``make test-long`` uses it; it needs root and Debian's packages.
"""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.shared_server import ACCESS_KEY, SECRET_KEY, Launch, free_ports

_PACKAGES = ("ceph-mon", "ceph-osd", "radosgw", "ceph-base")
_SCRIPT = Path(__file__).with_suffix(".sh")


def ceph(data: Path) -> Launch:
    """Monitor, OSD and gateway with their data in a folder."""
    _install()
    ports = dict(zip(("MON_V2", "MON_V1", "RGW"), map(str, free_ports(3)), strict=True))
    return Launch(
        command=["bash", str(_SCRIPT)],
        environment={**ports, "ACCESS_KEY": ACCESS_KEY, "SECRET_KEY": SECRET_KEY},
        endpoint_url=f"http://127.0.0.1:{ports['RGW']}",
        patience=180,
    )


def _install() -> None:
    with (Path(tempfile.gettempdir()) / "shardrel-ceph.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(shutil.which(program) for program in ("ceph-mon", "ceph-osd", "radosgw")):
            return
        subprocess.run(["apt-get", "update", "-q"], check=True, stdout=subprocess.DEVNULL)
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *_PACKAGES]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
