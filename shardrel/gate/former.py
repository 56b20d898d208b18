"""Who said something about a root under an earlier policy, and does not count any more. Source: schemas/SPEC.md#policy

For words to people alone: no verdict rests on it.
"""

from shardrel.errors import FormatError, IntegrityError, NotFoundError, TrustError
from shardrel.gate.attestations import list_envelopes, read_envelope
from shardrel.gate.history import walk
from shardrel.gate.view import GateView
from shardrel.records.policy import Policy, PublicKey
from shardrel.records.report import STATEMENT_PAYLOAD
from shardrel.records.transition import SetPolicy
from shardrel.store.objects import get_record
from shardrel.store.port import Store
from shardrel.trust.envelope import unseal
from shardrel.trust.keys import key_id
from shardrel.trust.statement import read_statement


def former_publishers(store: Store, view: GateView, root: str, kind: str) -> tuple[str, ...]:
    """Names of keys that signed such a statement about a root and were publishers then, and are not now.

    One read a transition, one a change of policy and one an envelope.

    Args:
        store: Where the gate is.
        view: Its state.
        root: The root.
        kind: Predicate type of the statement.

    Raises:
        UnavailableError: The store does not answer.
    """
    try:
        gone = _gone(store, view)
    except (NotFoundError, IntegrityError, FormatError):
        return ()
    names = {name for digest in list_envelopes(store, root) for name in _signers(store, root, digest, kind, gone)}
    return tuple(sorted(names))


def _gone(store: Store, view: GateView) -> dict[str, PublicKey]:
    """Publishers' keys of earlier policies that the present one has not."""
    requests = (link.transition.request for link in walk(store, view))
    earlier = [get_record(store, one.previous, Policy) for one in requests if isinstance(one, SetPolicy)]
    known = {key_id(key): key for policy in earlier for key in policy.roles.publisher.keys}
    now = {key_id(key) for key in view.policy.roles.publisher.keys}
    return {identity: key for identity, key in known.items() if identity not in now}


def _signers(store: Store, root: str, digest: str, kind: str, keys: dict[str, PublicKey]) -> set[str]:
    envelope = read_envelope(store, root, digest)
    if envelope is None or not keys:
        return set()
    try:
        opened = unseal(envelope, STATEMENT_PAYLOAD, keys.values())
        read_statement(opened.payload, root, kind)
    except (TrustError, FormatError):
        return set()
    return {keys[identity].name for identity in opened.key_ids}
