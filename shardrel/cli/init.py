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
from shardrel.cli.words import listed

if TYPE_CHECKING:
    from shardrel.records.policy import Policy
    from shardrel.store.port import Store


def init(
    settings: Settings,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Policy; without one: a local key for each role.")
    ] = None,
) -> Result:
    """Create the gate of a dataset, its policy and, for local use, keys. Twice is harmless."""
    from shardrel.gate.init import init as initialise
    from shardrel.gate.view import datasets_of, find_gate
    from shardrel.trust import keyring
    from shardrel.trust.policy import default_policy
    from shardrel.trust.private_files import keep_out_of_git

    store = the_store(settings)
    there, fresh = find_gate(store, settings.dataset), not settings.keys.exists()
    if policy is not None:
        rules = read_policy(policy)
    elif there is not None:
        rules = there.policy
    else:
        rules = default_policy(keyring.ensure(settings.keys))
    keep_out_of_git(settings.keys, fresh=fresh)
    # A gate that is there needs nobody's signature to be found there.
    by = [] if there is not None else signers(settings, rules, "governor")
    store = _probed(store, settings)
    done = initialise(store, settings.dataset, rules, call(by, settings))
    others = [name for name in datasets_of(store) if name != done.dataset]
    absent = not settings.key and not _held(settings, rules)
    notes = _notes(others, settings.keys if absent else None)
    return Result(
        data={
            "dataset": done.dataset,
            "gateId": done.gate_id,
            "policyDigest": done.policy,
            "store": store.url,
            "keys": keyring.names(settings.keys),
            "otherDatasets": others,
            "notes": notes,
        },
        headline=f"The gate of {done.dataset} is there",
        sentences=notes,
        facts=[
            ("store", store.url),
            ("gate", done.gate_id),
            ("policy", done.policy),
            ("keys", "none of the policy's" if absent else settings.keys),
        ],
    )


def _notes(others: list[str], keyless: Path | None) -> list[str]:
    """What somebody would like to know before anything rests on this gate."""
    said = []
    if others:
        said.append(
            f"The store also has the gate of {listed(others)}: gc deletes nothing in a store of several datasets. If releases"
            " are to be deleted one day, give each dataset a folder or bucket prefix of its own (--store)."
        )
    if keyless is not None:
        said.append(
            f"No private key of the policy is in {keyless}, so nobody can sign from here; name the folder with --keys,"
            " or a key with --key."
        )
    return said


def _held(settings: Settings, rules: "Policy") -> bool:
    """Whether a key of the policy is in the folder; nobody is asked for a passphrase."""
    from shardrel.errors import ShardrelError
    from shardrel.trust import keyring
    from shardrel.trust.keys import key_id
    from shardrel.trust.policy import ROLE_NAMES, keys_of

    wanted = {key_id(key) for key in keys_of(rules, ROLE_NAMES)}
    for name in keyring.names(settings.keys):
        try:
            if key_id(keyring.public(settings.keys, name)) in wanted:
                return True
        except ShardrelError:
            continue
    return False


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
