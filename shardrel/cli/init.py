"""``shardrel init``: the gate of a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardrel import clock
from shardrel.cli.access import the_store
from shardrel.cli.output import Result
from shardrel.cli.policy import read_policy
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call, signers

if TYPE_CHECKING:
    from shardrel.store.port import Store


def init(
    settings: Settings,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Policy; without one: a local key for each role.")
    ] = None,
) -> Result:
    """Create the gate of a dataset, its policy and, for local use, keys. Twice is harmless."""
    from shardrel.gate.init import init as initialise
    from shardrel.gate.view import find_gate
    from shardrel.trust import keyring
    from shardrel.trust.policy import default_policy

    store = the_store(settings)
    there = find_gate(store, settings.dataset)
    if policy is not None:
        rules = read_policy(policy)
    elif there is not None:
        rules = there.policy
    else:
        rules = default_policy(keyring.ensure(settings.keys))
    # A gate that is there needs nobody's signature to be found there.
    by = [] if there is not None else signers(settings, rules, "governor")
    store = _probed(store, settings)
    done = initialise(store, settings.dataset, rules, call(by, settings))
    return Result(
        data={
            "dataset": done.dataset,
            "gateId": done.gate_id,
            "policyDigest": done.policy,
            "store": store.url,
            "keys": keyring.names(settings.keys),
        },
        headline=f"The gate of {done.dataset} is there",
        facts=[("store", store.url), ("gate", done.gate_id), ("policy", done.policy), ("keys", settings.keys)],
    )


def _probed(store: "Store", settings: Settings) -> "Store":
    """The store, tried before anything rests on it, unless a verdict that it passed is kept.

    Raises:
        RefusedError: ``storage.not-conformant``.
    """
    from shardrel.store.probe import probe
    from shardrel.store.verdicts import keep, kept, speaking

    before = kept(store, settings.dataset)
    if before is not None and before.verdict == "PASSED":
        return speaking(store, quoted_tokens=before.quoted_tokens)
    found = probe(store)
    keep(store, settings.dataset, found, clock.now_utc())
    found.require()
    return speaking(store, quoted_tokens=found.quoted_tokens)
