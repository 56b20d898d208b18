"""``shardrel serve``: a gate, live and read-only, for people, probes and Prometheus."""

import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel.cli.access import the_store
from shardrel.cli.output import Result, visible
from shardrel.cli.settings import Settings
from shardrel.errors import ShardrelError

if TYPE_CHECKING:
    from shardrel.store.port import Store


def serve(
    settings: Settings,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="Its port; 0 takes a free one.")] = 9464,
    every: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Read the gate no more often.")] = 5.0,
) -> Result:
    """Show the gate as a live page that changes nothing, with /readyz and /metrics; until it is stopped."""
    from shardrel.cli.gate_watch import GateWatch
    from shardrel.watch.endpoint import endpoint, metrics, readiness
    from shardrel.watch.exposition import exposition

    store = the_store(settings)
    watch = GateWatch(store, settings, every)
    write = exposition(watch.figures)

    def figures() -> bytes:
        watch.refreshed()
        return write()

    pages = {"/": watch.page, "/readyz": readiness(watch.ready), "/metrics": metrics(figures)}
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with endpoint(host, port, pages) as bound:
        _say(settings, store, host, bound)
        stopped.wait()
    return Result(data={"host": host, "port": bound}, headline="Stopped")


def _say(settings: Settings, store: "Store", host: str, port: int) -> None:
    """Where the page is, and what it shows: a gate that is not there yet may come."""
    from shardrel.gate.view import read_gate
    from shardrel.watch.endpoint import address
    from shardrel.watch.events import Events

    refused: ShardrelError | None = None
    try:
        read_gate(store, settings.dataset)
    except ShardrelError as err:
        refused = err
    url = address(host, port)
    if settings.as_json:
        code = None if refused is None else refused.code.value
        Events(sys.stderr).say("serving", host=host, port=port, url=url, code=code)
        return
    lines = [f"The gate of {settings.dataset} in {store.url} is shown at {url} until this is stopped (Ctrl-C)."]
    if refused is not None:
        lines.append(f"For now it shows a refusal alone: {refused.message} ({refused.code.value})")
    sys.stderr.write("\n".join(visible(line) for line in lines) + "\n")
    sys.stderr.flush()
