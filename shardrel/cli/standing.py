"""How a root stands at its gate behind a verification, and which command comes next."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate
from shardrel.errors import ErrorCode, ShardrelError

if TYPE_CHECKING:
    from shardrel.gate.eligibility import Eligible
    from shardrel.gate.facts import Refuse
    from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the gate says of a root.

    Attributes:
        state: None where the gate does not know the root, or could not be asked.
        sentence: The same for people, with what is to be done.
    """

    state: str | None
    sentence: str


def standing(settings: Settings, store: "Store", root: str) -> Standing:
    """Ask the gate as it is after the report; a verdict stands also where it does not answer."""
    from shardrel.gate.candidates import state_of
    from shardrel.gate.eligibility import eligible
    from shardrel.gate.evidence import gather

    try:
        view = the_gate(settings, store)
        candidate = view.body.candidates.get(root)
        if candidate is None:
            return Standing(state=None, sentence="does not know the root; publish it there first")
        evidence = gather(store, root, view.policy)
    except ShardrelError as err:
        return Standing(state=None, sentence=f"could not be asked: {err.message} ({err.code.value})")
    state = state_of(view.body, root, evidence, view.policy) or candidate.state
    why = f" ({candidate.reason})" if candidate.reason else ""
    verdict = eligible(view.body, root, evidence, view.policy, ask_approvals=state != "ADMITTED")
    return Standing(state=state, sentence=f"{state}{why}{_next(root, state, verdict)}")


def _next(root: str, state: str, verdict: "Eligible | Refuse") -> str:
    from shardrel.gate.facts import Refuse

    short = root.removeprefix("sha256:")[:12]
    admit = f"shardrel admit {short} --alias NAME"
    if isinstance(verdict, Refuse):
        if verdict.code is ErrorCode.GATE_NOT_APPROVED:
            return f"; run: shardrel approve {short}, then: {admit}"
        return f": {verdict.message}"
    return "" if state == "ADMITTED" else f"; run: {admit}"
