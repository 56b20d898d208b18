"""Figures in the text format of Prometheus, by its own client library. Source: schemas/SPEC.md#watching."""

from collections.abc import Callable, Iterator
from typing import Any

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.watch.figures import METRICS, Figures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(figures: Figures) -> Callable[[], bytes]:
    """What writes the figures as they are at each call.

    Raises:
        InvalidInputError: ``input.invalid`` where the library is not installed.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector
    except ImportError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_INVALID,
            "figures are written by prometheus_client (the extra metrics); run: pip install prometheus-client",
        ) from err

    class _Figures(Collector):
        def collect(self) -> Iterator[Any]:
            return _families(figures)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures())
    return lambda: generate_latest(registry)


def _families(figures: Figures) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, values in figures.read().items():
        metric = METRICS[name]
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = kind(name.removesuffix("_total"), metric.meaning, labels=metric.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
