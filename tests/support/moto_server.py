"""An AWS emulator in this process, for the protocol of single requests. It shows nothing about races."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

from tests.support.shared_server import S3Server, make_client


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """A server on a free loopback port, with a plain and a versioned bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it logs every request otherwise
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint_url = f"http://{host}:{port}"
        client = make_client(endpoint_url)
        for bucket in ("plain", "versioned"):
            client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        client.close()
        yield S3Server(endpoint_url=endpoint_url, plain="plain", versioned="versioned")
    finally:
        server.stop()
