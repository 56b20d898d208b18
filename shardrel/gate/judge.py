"""The decision of one request over the states that a contended gate goes through. Source: schemas/SPEC.md#operations.

Evidence costs requests to the store, so it is gathered once and kept over lost swaps. That is sound where it
says that something is there: reports and approvals are never taken back, and the rule holds them against the
state of the moment. It is not sound where an acceptance rests on something being absent.
"""

from collections.abc import Callable
from dataclasses import replace

from shardrel.gate.facts import Accept, Evidence, Refuse
from shardrel.gate.transitions import decide
from shardrel.gate.view import GateView
from shardrel.records.transition import Request, StartRun

Gather = Callable[[GateView | None], Evidence]


class Judge:
    """Decides one request, as often as its swap is lost."""

    def __init__(
        self, request: Request, gather: Gather, signers: frozenset[str], *, evidence: Evidence | None = None
    ) -> None:
        """Prepare to decide.

        Args:
            request: What is asked for.
            gather: Evidence for a state.
            signers: Ids of the keys that sign the transition.
            evidence: What was gathered for an earlier state.
        """
        self._request = request
        self._gather = gather
        self._signers = signers
        self._evidence = evidence

    def verdict(self, view: GateView | None) -> Accept | Refuse:
        """Decide on a state, with new evidence where old one could mislead.

        Evidence of an earlier state is enough for a yes, and gathered again before a no. The start of a run
        rests on the absence of a record: whoever started a run of this id, and ended it, since the evidence
        was gathered, has written one.
        """
        if isinstance(self._request, StartRun):
            self._evidence = None
        kept = self._evidence
        if kept is not None:
            verdict = self._decide(view, kept)
            if isinstance(verdict, Accept):
                return verdict
        self._evidence = self._gather(view)
        return self._decide(view, self._evidence)

    def _decide(self, view: GateView | None, evidence: Evidence) -> Accept | Refuse:
        signed = replace(evidence, signers=self._signers)
        if view is None:
            return decide(None, self._request, signed, None)
        return decide(view.body, self._request, signed, view.policy)
