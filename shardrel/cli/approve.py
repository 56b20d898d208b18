"""``shardrel approve``: a person's yes to one digest."""

from shardrel import clock
from shardrel.cli.access import the_root, the_store_to_write
from shardrel.cli.arguments import Root
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate, the_signer


def approve(settings: Settings, root: Root) -> Result:
    """Sign an approval of a root digest. What one approver says twice counts once."""
    from shardrel.gate.approve import approve as sign_approval

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    digest = the_root(root, list(view.body.candidates))
    done = sign_approval(store, view, digest, the_signer(settings, view.policy, "approver"), clock.now_utc())
    return Result(
        data={"root": digest, "approvals": done.approvals, "needed": done.needed, "envelope": done.envelope},
        headline=f"{done.approvals} of {done.needed} approvals",
        facts=[("root", digest), ("envelope", done.envelope)],
    )
