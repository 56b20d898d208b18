"""``make s3-up``: a real S3 server on loopback until it is interrupted, and the lines that point the AWS client at it."""

import shlex
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.seaweed import seaweed
from tests.support.shared_server import shared_server


def main() -> None:
    """Serve."""
    # Whoever stops this by a signal stops the server too, which leads a session of its own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="shardrel-s3-") as folder, shared_server(Path(folder), seaweed) as server:
        for name, value in server.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        print(f"export SHARDREL_STORE=s3://{server.versioned}/demo", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
