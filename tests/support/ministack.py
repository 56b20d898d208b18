"""A second S3 server, written by others and in another way: ministack, in an environment of its own.

It pins another boto3 than ours and is therefore installed on its own, once, beside the checkout's environment.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.support.shared_server import Launch, free_ports

_ROOT = Path(__file__).resolve().parents[2]
_HOME = _ROOT / ".venv-ministack"
_VERSION = "1.5.33"


def ministack(data: Path) -> Launch:
    """ministack, on loopback; it binds to every interface unless it is told."""
    [port] = free_ports(1)
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "HOME": str(data), "LOG_LEVEL": "WARNING"}
    return Launch(command=[str(_program())], environment=environment, endpoint_url=f"http://127.0.0.1:{port}")


def _program() -> Path:
    """The installed program; whoever comes first installs it."""
    _HOME.mkdir(exist_ok=True)
    program, done = _HOME / "bin" / "ministack", _HOME / f"installed-{_VERSION}"
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", str(_HOME)], check=True)
            pip = [str(_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", f"ministack=={_VERSION}", "boto3"]
            subprocess.run(pip, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
            done.touch()
    return program
