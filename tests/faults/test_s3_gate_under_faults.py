"""A gate on real S3 servers while the network and the server fail: one effect for each operation, none without.

Every PUT of the flow is a conditional write, so what happens to all PUTs happens to all conditional writes.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardrel.errors import ErrorCode, RefusedError, UnavailableError
from shardrel.gate import fence, runs
from shardrel.gate.admit import admit
from shardrel.gate.call import Call
from shardrel.gate.view import read_gate
from shardrel.store.s3 import S3Store
from tests.support import gates
from tests.support.fault_proxy import (
    Action,
    FaultProxy,
    Forward,
    Request,
    Response,
    answer,
    answer_after,
    fault_proxy,
    lose_answer,
    lose_request,
    truncate,
)
from tests.support.gates import DATASET, a_report, a_root, attach_report, attest, new_gate, stage
from tests.support.runs import a_deletion
from tests.support.shared_server import S3Server
from tests.support.stores import s3_store

ROOT = a_root("of a run")
FOREVER = 100_000


@pytest.fixture(params=["seaweed", "ministack"])
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def between(server: S3Server) -> Iterator[FaultProxy]:
    with fault_proxy(server.endpoint_url) as running:
        yield running


@pytest.fixture
def store(request: pytest.FixtureRequest, server: S3Server, between: FaultProxy) -> S3Store:
    versioned = request.node.callspec.params["server"] == "seaweed"
    return s3_store(server.versioned if versioned else server.plain, between.url)


def flow(store: S3Store, call: Call) -> dict[str, Any]:
    """All kinds of conditional writes: objects, attestations, intents, the state, a run record."""
    new_gate(store)
    stage(store, ROOT)
    attest(store, ROOT)
    admit(store, DATASET, ROOT, "prod", call)
    runs.start(store, DATASET, "prod", call, run_id="run-1")
    fence.advance(store, DATASET, "tombstones", [a_deletion(1)], call)
    attach_report(store, a_report(read_gate(store, DATASET).body, ROOT))
    runs.renew(store, DATASET, "run-1", call)
    runs.finish(store, DATASET, "run-1", call)
    body = read_gate(store, DATASET).body
    return {"sequence": body.sequence, "generation": body.aliases["prod"].generation, "runs": body.runs}


WANTED = {"sequence": 8, "generation": 1, "runs": {}}


def first(times: int, fault: Action) -> Action:
    """The fault hits the first requests of each key."""
    seen: Counter[str] = Counter()

    def act(request: Request, forward: Forward) -> Response | None:
        seen[request.path] += 1
        return fault(request, forward) if seen[request.path] <= times else forward(request)

    return act


@pytest.mark.parametrize(
    "fault",
    [
        lose_answer,
        lose_request,
        answer(409, "ConditionalRequestConflict"),
        answer(503, "SlowDown"),
        answer_after(500, "InternalError"),
    ],
    ids=["answers lost", "requests lost", "409", "SlowDown", "500 although done"],
)
def test_the_first_two_requests_of_every_write_meet_a_fault_and_it_has_one_effect(
    store: S3Store, between: FaultProxy, fault: Action, tmp_path: Path
) -> None:
    hits: list[str] = []

    def counted(request: Request, forward: Forward) -> Response | None:
        hits.append(request.path)
        return fault(request, forward)

    between.on("PUT", first(2, counted), FOREVER)
    assert flow(store, a_call(tmp_path)) == WANTED
    assert len(set(hits)) > 20
    assert any(path.endswith("/state") for path in hits)


def a_call(folder: Path) -> Call:
    return Call(signers=[gates.key("admin")], recorded_at=gates.NOW, operation_id=None, pending=folder)


def test_every_read_breaks_off_once(store: S3Store, between: FaultProxy, tmp_path: Path) -> None:
    between.on("GET", first(1, truncate(lambda size: size // 2)), FOREVER)
    assert flow(store, a_call(tmp_path)) == WANTED


def test_a_server_that_asks_again_for_ever_is_left_and_the_same_command_finishes(
    store: S3Store, between: FaultProxy, tmp_path: Path
) -> None:
    new_gate(store)
    stage(store, ROOT)
    attest(store, ROOT)
    before = read_gate(store, DATASET).body.sequence
    between.on("PUT", answer(409, "ConditionalRequestConflict"), FOREVER)
    with pytest.raises(UnavailableError) as busy:
        admit(store, DATASET, ROOT, "prod", a_call(tmp_path))
    assert busy.value.code is ErrorCode.STORE_CONTENTION
    between.reset()
    assert not admit(store, DATASET, ROOT, "prod", a_call(tmp_path)).repeated
    assert read_gate(store, DATASET).body.sequence == before + 1


def test_a_listing_that_lags_refuses_and_never_grants(store: S3Store, between: FaultProxy, tmp_path: Path) -> None:
    new_gate(store)
    stage(store, ROOT)
    empty: list[Response] = []

    def stale(request: Request, forward: Forward) -> Response:
        if "list-type=2" not in request.path:
            return forward(request)
        if not empty:
            empty.append(forward(request))
        return empty[0]

    between.on("GET", stale, FOREVER)
    assert list(store.list("attestations/")) == []
    attest(store, ROOT)
    with pytest.raises(RefusedError):
        admit(store, DATASET, ROOT, "prod", a_call(tmp_path))
    between.reset()
    assert admit(store, DATASET, ROOT, "prod", a_call(tmp_path)).generation == 1
