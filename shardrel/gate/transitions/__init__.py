"""The rule of the gate: (state, request, evidence, policy) → next state, or a refusal. Pure.

Source: schemas/SPEC.md#transitions.
"""

from shardrel.gate.transitions.decide import decide

__all__ = ["decide"]
