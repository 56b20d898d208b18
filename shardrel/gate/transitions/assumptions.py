"""What a caller takes for true of the gate. Pure. Source: schemas/SPEC.md#transitions (assumptions)."""

from shardrel.errors import ErrorCode
from shardrel.gate.facts import Refuse, refuse
from shardrel.records.gate import GateBody
from shardrel.records.transition import Admit, AdmitCheckpoint, EndRun, RenewRun, Request, Revoke, Rollback, StartRun


def false_assumption(body: GateBody, request: Request) -> Refuse | None:
    """The first assumption that does not hold; one that cannot hold for this request counts as false."""
    assume = request.assume
    if assume.gate_id not in (None, body.gate_id):
        return refuse(ErrorCode.GATE_WRONG, "this is another gate", gateId=body.gate_id, expected=assume.gate_id)
    generation, root = _subject(body, request)
    if assume.generation is not None and assume.generation != generation:
        return refuse(
            ErrorCode.GATE_GENERATION,
            "the alias has another generation by now; look at shardrel status and decide anew",
            generation=generation,
            expected=assume.generation,
        )
    if assume.root is not None and assume.root != root:
        return refuse(ErrorCode.GATE_ASSUMPTION, "another root stands there", root=root, expected=assume.root)
    for name, assumed, fence in (
        ("tombstoneWatermark", assume.tombstone_watermark, body.tombstones),
        ("benchmarkFence", assume.benchmark_fence, body.benchmarks),
    ):
        if assumed is not None and assumed != fence.watermark:
            return refuse(
                ErrorCode.GATE_ASSUMPTION, f"{name} is another by now", watermark=fence.watermark, expected=assumed
            )
    return None


def _subject(body: GateBody, request: Request) -> tuple[int | None, str | None]:
    """Generation and root of what the request is about; an alias that is not there has generation 0."""
    match request:
        case Admit() | Rollback() | StartRun():
            alias = body.aliases.get(request.alias)
            return (alias.generation, alias.root) if alias else (0, None)
        case RenewRun() | EndRun() | AdmitCheckpoint():
            run = body.runs.get(request.run)
            return (run.generation, run.root) if run else (None, None)
        case Revoke():
            return None, request.root
        case _:
            return None, None
