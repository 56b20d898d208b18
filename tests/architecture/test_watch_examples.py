"""The dashboard and the Kubernetes examples name what the product really exports, reads and listens to."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from typer.testing import CliRunner

from shardrel.cli.main import build_app
from shardrel.train import surroundings
from shardrel.watch.figures import METRICS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DASHBOARD = json.loads((EXAMPLES / "grafana" / "shardrel.json").read_text())
MANIFESTS = {
    path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted((EXAMPLES / "kubernetes").glob("*.yaml"))
}
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def selectors(expression: Any) -> Iterator[Any]:
    """All vector selectors of a parsed query."""
    for kind in (promql_parser.VectorSelector, promql_parser.MatrixSelector):
        if isinstance(expression, kind):
            yield getattr(expression, "vector_selector", expression)
    for name in ("expr", "lhs", "rhs", "param"):
        inner = getattr(expression, name, None)
        if inner is not None and not isinstance(inner, str):
            yield from selectors(inner)
    for inner in getattr(expression, "args", ()) or ():
        yield from selectors(inner)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_parses_and_asks_for_what_is_exported(query: str) -> None:
    found = list(selectors(promql_parser.parse(query)))
    assert found
    for one in found:
        metric = METRICS[one.name]
        matched = {matcher.name for matcher in one.matchers.matchers}
        assert matched <= set(metric.labels)
        counted = re.search(rf"(rate|increase)\({one.name}", query) is not None
        assert metric.kind == "counter" or not counted
    for group in re.findall(r"by \(([^)]*)\)", query):
        labels = {label for one in found for label in METRICS[one.name].labels}
        assert {label.strip() for label in group.split(",")} <= labels


def test_every_metric_has_a_place_on_the_dashboard() -> None:
    shown = {name for query in QUERIES for name in re.findall(r"shardrel_\w+", query)}
    assert shown == set(METRICS)


def test_panels_are_numbered_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def containers() -> list[Any]:
    found = []
    for documents in MANIFESTS.values():
        for document in documents:
            if "template" in document["spec"]:
                found += document["spec"]["template"]["spec"]["containers"]
    return found


def test_probes_and_scrapes_go_where_the_process_listens() -> None:
    for document in (one for documents in MANIFESTS.values() for one in documents if "template" in one["spec"]):
        notes = document["spec"]["template"]["metadata"]["annotations"]
        for container in document["spec"]["template"]["spec"]["containers"]:
            ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
            probe = container["readinessProbe"]["httpGet"]
            assert (probe["path"], ports[probe["port"]]) == ("/readyz", notes["prometheus.io/port"])
            listens = [*container["command"], *[str(one.get("value")) for one in container.get("env", ())]]
            assert [word for word in listens if word == ports["watch"] or word.endswith(f":{ports['watch']}")]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_variables_are_those_that_are_read() -> None:
    names = {one["name"] for container in containers() for one in container.get("env", ())}
    known = {
        surroundings.WATCH,
        surroundings.EVENTS,
        surroundings.ROOT,
        "RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    }
    assert names == known


def test_a_rank_of_each_pod_and_a_name_for_the_first() -> None:
    service, job = MANIFESTS["training-job.yaml"]
    spec = job["spec"]
    pod = spec["template"]["spec"]
    env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert int(env["WORLD_SIZE"]) == spec["completions"] == spec["parallelism"]
    assert env["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    (refused,) = [rule for rule in spec["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
    assert refused["onExitCodes"]["values"] == [1, 2]  # 3, a rank that is gone, starts again


def test_the_served_command_is_one() -> None:
    (command,) = [one["command"] for one in containers() if one["command"][0] == "shardrel"]
    assert CliRunner().invoke(build_app(), [*command[1:], "--help"]).exit_code == 0
