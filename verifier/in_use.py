"""in-use: what an advance would stop, checked before it happens. Source: schemas/SPEC.md#staged"""

from shardrel.gate.view import GateView
from shardrel.records.gate import GateBody
from shardrel.store.port import Store
from shardrel.trust.keys import key_id
from verifier.logs import Target, fences_of, read_logs, staged_targets
from verifier.recheck import last_passed, recheck_fences
from verifier.verify import VerifyResult, World


def roots_in_use(body: GateBody) -> dict[str, tuple[str, ...]]:
    """Roots that an alias or an open run uses, with these users; a revoked root is of no use to anybody. Pure."""
    users: dict[str, list[str]] = {}
    for name, alias in sorted(body.aliases.items()):
        users.setdefault(alias.root, []).append(f"alias:{name}")
    for name, run in sorted(body.runs.items()):
        for root in run.roots:
            users.setdefault(root, []).append(f"run:{name}")
    return {root: tuple(names) for root, names in sorted(users.items()) if body.candidates[root].state != "INVALID"}


def check_ahead(store: Store, root: str, gate: GateView, *, staged: bool, world: World) -> list[VerifyResult]:
    """Delta reports that carry a root to the gate's fences and, log by log, to what is staged behind them.

    What PASSED reports cover already is not looked at again.

    Args:
        staged: Whether to go beyond the gate's fences.

    Returns:
        The reports that were signed; none where there was nothing to look at. A FAILED one at the gate's fences is
        the last.

    Raises:
        RefusedError: ``gate.not-verified`` when no trusted report of this root passed in full.
        ShardrelError: As ``recheck_fences``.

    Effects: two envelopes about the root for each report.
    """
    done: list[VerifyResult] = []
    for target in _targets(gate, staged=staged):
        if _reached(store, root, gate, target, world):
            continue
        done.append(recheck_fences(store, root, gate, world=world, target=target))
        if target == fences_of(gate.body) and done[-1].report.verdict == "FAILED":
            break
    return done


def last_report(store: Store, root: str, gate: GateView, *, staged: bool, world: World) -> str:
    """The digest of the report that carries a root furthest, where ``check_ahead`` found nothing to look at.

    Raises:
        RefusedError: ``gate.not-verified``.
    """
    logs = read_logs(store, _targets(gate, staged=staged)[-1])
    return last_passed(store, root, gate, logs, key_id(world.signer.public)).seen.envelope


def _targets(gate: GateView, *, staged: bool) -> list[Target]:
    return [fences_of(gate.body), *(staged_targets(gate.body) if staged else ())]


def _reached(store: Store, root: str, gate: GateView, target: Target, world: World) -> bool:
    logs, signer = read_logs(store, target), key_id(world.signer.public)
    return last_passed(store, root, gate, logs, signer).watermarks == target.watermarks
