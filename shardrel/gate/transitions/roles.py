"""Which role may make which transition. Pure. Source: schemas/SPEC.md#transitions (table)."""

from shardrel.records.policy import Policy
from shardrel.records.transition import (
    Admit,
    AdmitCheckpoint,
    BeginPublication,
    EndPublication,
    EndRun,
    GateRole,
    RenewRun,
    Request,
    Rollback,
    StartRun,
)
from shardrel.trust.policy import is_met, role_of


def roles_for(request: Request) -> tuple[GateRole, ...]:
    """The roles of which one must sign, the least powerful first."""
    match request:
        case BeginPublication() | EndPublication():
            return ("publisher", "releaser")
        case Admit() | Rollback():
            return ("releaser",)
        case StartRun() | RenewRun() | EndRun() | AdmitCheckpoint():
            return ("runner",)
        case _:
            return ("governor",)


def signing_role(request: Request, policy: Policy, key_ids: frozenset[str]) -> GateRole | None:
    """The role whose threshold these distinct keys meet, if the request may be made by it."""
    return next((name for name in roles_for(request) if is_met(role_of(policy, name), key_ids)), None)
