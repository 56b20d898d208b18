"""A real S3 server for tests: SeaweedFS from PyPI."""

import json
import sysconfig
from pathlib import Path

from tests.support.shared_server import ACCESS_KEY, SECRET_KEY, Launch, free_ports

_PORTS = ("master", "volume", "filer", "master_grpc", "volume_grpc", "filer_grpc", "s3", "s3_grpc")


def seaweed(data: Path, address: str = "127.0.0.1") -> Launch:
    """SeaweedFS with its data in a folder."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    command = _command(data, ports, address)
    return Launch(command=command, environment={}, endpoint_url=f"http://{address}:{ports['s3']}")


def _command(data: Path, ports: dict[str, int], address: str) -> list[str]:
    config = data / "s3.json"
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    config.write_text(json.dumps({"identities": [{"name": "admin", "credentials": credentials, "actions": actions}]}))
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    return [
        str(weed), "-logtostderr=true", "server", f"-ip={address}", f"-ip.bind={address}", f"-dir={data}",
        "-master.telemetry=false", f"-master.port={ports['master']}", f"-volume.port={ports['volume']}",
        "-filer", f"-filer.port={ports['filer']}", f"-master.port.grpc={ports['master_grpc']}",
        f"-volume.port.grpc={ports['volume_grpc']}", f"-filer.port.grpc={ports['filer_grpc']}",
        f"-filer.localSocket={data / 'filer.sock'}", "-s3", f"-s3.port={ports['s3']}",
        f"-s3.port.grpc={ports['s3_grpc']}", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=64", "-volume.max=1000", "-s3.autoCreateBucket=false", "-volume.preStopSeconds=0",
        "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",
    ]  # fmt: skip
