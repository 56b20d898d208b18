"""``shardrel serve``: a gate, live and read-only, for people, probes and Prometheus."""

import signal
import sys
import threading
from typing import Annotated

import typer

from shardrel.cli.access import the_store
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings


def serve(
    settings: Settings,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="0 takes a free one.")] = 9464,
    every: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Read the gate no more often.")] = 5.0,
) -> Result:
    """Show the gate as a live page that changes nothing, with /readyz and /metrics; until it is stopped."""
    from shardrel.cli.gate_watch import GateWatch
    from shardrel.watch.endpoint import endpoint, metrics, readiness
    from shardrel.watch.events import Events
    from shardrel.watch.exposition import exposition

    watch = GateWatch(the_store(settings), settings, every)
    write = exposition(watch.figures)

    def figures() -> bytes:
        watch.refreshed()
        return write()

    pages = {"/": watch.page, "/readyz": readiness(watch.ready), "/metrics": metrics(figures)}
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with endpoint(host, port, pages) as bound:
        Events(sys.stderr).say("serving", host=host, port=bound)
        stopped.wait()
    return Result(data={"host": host, "port": bound}, headline="Stopped")
