"""moto inside of this process, beside a server of moto's that other tests of it use.

``mock_aws()`` empties all of moto when it begins and when it ends, the server's buckets with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from moto import mock_aws


@contextmanager
def mocked_aws() -> Iterator[None]:
    """Calls of boto3 are answered by moto; what it holds already stays, and so does what is made meanwhile."""
    mock = mock_aws()
    mock.start(reset=False)
    try:
        yield
    finally:
        mock.stop(remove_data=False)
