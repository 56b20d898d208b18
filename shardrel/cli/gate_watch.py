"""A gate as a page, a probe and figures: read when asked, but not more often than every few seconds.

Source: schemas/SPEC.md#watching
"""

import threading
from collections.abc import Iterable, Mapping

from shardrel.cli.page import page
from shardrel.cli.settings import Settings
from shardrel.cli.status import status
from shardrel.clock import monotonic
from shardrel.errors import ShardrelError
from shardrel.gate.evidence import gather
from shardrel.gate.view import GateView, read_gate
from shardrel.records.gate import GateBody
from shardrel.records.report import Report
from shardrel.store.port import Store
from shardrel.watch.endpoint import Page
from shardrel.watch.figures import GATE, Figures

_COUNTS = {
    "shardrel_missing_members": "missing",
    "shardrel_extra_members": "extra",
    "shardrel_duplicate_members": "duplicate",
    "shardrel_substituted_members": "substituted",
    "shardrel_reported_digest_failures": "digest_failures",
    "shardrel_tombstone_hits": "tombstone_hits",
    "shardrel_benchmark_hits": "benchmark_hits",
}
_KEPT = "shardrel_gate_read_failures_total"


class GateWatch:
    """What is shown of a gate; threads may share it.

    Attributes:
        figures: As of the last time that they were read.
    """

    def __init__(self, store: Store, settings: Settings, every_s: float) -> None:
        self.figures = Figures()
        self._store = store
        self._settings = settings
        self._every = every_s
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._ready: tuple[bool, Mapping[str, object]] = (False, {})

    def ready(self) -> tuple[bool, Mapping[str, object]]:
        """Whether the gate could be read and its head's signature holds; its head and sequence."""
        self._refresh()
        return self._ready

    def refreshed(self) -> Figures:
        """The figures, not older than a few seconds."""
        self._refresh()
        return self.figures

    def page(self) -> Page:
        """What ``shardrel status`` says, as a page that loads itself again."""
        try:
            text = page(status(self._settings), f"Gate of {self._settings.dataset}")
        except ShardrelError as err:
            return Page(503, "text/plain", f"{err.code.value}\n".encode())
        return Page(200, "text/html; charset=utf-8", text.encode(), (("Refresh", "10"),))

    def _refresh(self) -> None:
        with self._lock:
            if self._read_at is not None and monotonic() - self._read_at < self._every:
                return
            self._read_at = monotonic()
            dataset = self._settings.dataset
            try:
                view = read_gate(self._store, dataset)
                newest = {root: _newest(self._store, view, root) for root in _roots(view.body)}
            except ShardrelError as err:
                self._ready = (False, {"dataset": dataset, "code": err.code.value})
                self.figures.put("shardrel_gate_ready", 0, dataset=dataset)
                self.figures.add(_KEPT, dataset=dataset, code=err.code.value)
                return
            self._ready = (True, {"dataset": dataset, "head": view.state.head, "sequence": view.body.sequence})
            self._put(view.body, newest)

    def _put(self, body: GateBody, newest: Mapping[str, Report | None]) -> None:
        """What is no longer there, such as a run that has ended, is no longer shown."""
        figures, dataset = Figures(), body.dataset
        figures.put("shardrel_gate_ready", 1, dataset=dataset)
        figures.put("shardrel_gate_sequence", body.sequence, dataset=dataset)
        for fence, taken in (("tombstones", body.tombstones), ("benchmarks", body.benchmarks)):
            figures.put("shardrel_fence_watermark", taken.watermark, dataset=dataset, fence=fence)
        for name, alias in body.aliases.items():
            figures.put("shardrel_alias_generation", alias.generation, root=alias.root, dataset=dataset, alias=name)
        for name, run in body.runs.items():
            labels = {"root": run.root, "dataset": dataset, "run": name}
            figures.put("shardrel_run_permit_open", int(run.permit is not None), **labels)
            figures.put("shardrel_run_step", 0 if run.head is None else run.head.step, **labels)
        for root, report in newest.items():
            for metric, field in _COUNTS.items():
                if report is not None:
                    figures.put(metric, getattr(report.counts, field), root=root)
        self.figures.replace((metric.name for metric in GATE if metric.name != _KEPT), figures)


def _roots(body: GateBody) -> Iterable[str]:
    return sorted(
        {one.root for one in body.aliases.values()} | {root for one in body.runs.values() for root in one.roots}
    )


def _newest(store: Store, view: GateView, root: str) -> Report | None:
    """The trusted report that saw the latest state of the gate."""
    reports = [seen.report for seen in gather(store, root, view.policy).reports]
    return max(reports, key=lambda report: (report.gate_sequence, report.finished_on), default=None)
