"""``shardrel policy``: who may say what."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.output import Result, Table
from shardrel.cli.settings import Settings
from shardrel.cli.signing import call, signers, the_gate
from shardrel.errors import ErrorCode, FormatError, InvalidInputError

if TYPE_CHECKING:
    from shardrel.gate.standing import Restate
    from shardrel.records.policy import Policy
    from shardrel.trust.signer import Signer

_MAX_BYTES = 1 << 20
_ANSWER = {"policyDigest", "policy", "again"}


def read_policy(path: Path) -> "Policy":
    """A policy from a file that a person wrote: JSON in any layout, also as ``policy show --json`` prints it.

    Raises:
        InvalidInputError: ``input.no-such-file``, ``input.policy``.
    """
    import msgspec

    from shardrel.records.fields import in_words
    from shardrel.records.policy import Policy
    from shardrel.trust.policy import validate
    from shardrel.trust.strict import parse_object

    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as err:
        raise InvalidInputError(ErrorCode.INPUT_NO_SUCH_FILE, f"{path} can't be read", path=str(path)) from err
    try:
        return validate(msgspec.convert(_unwrapped(parse_object(data, max_bytes=_MAX_BYTES)), Policy))
    except FormatError as err:
        raise InvalidInputError(ErrorCode.INPUT_POLICY, f"{path}: {err.message}", path=str(path)) from err
    except msgspec.ValidationError as err:
        raise InvalidInputError(
            ErrorCode.INPUT_POLICY, f"{path} is not a policy: {in_words(str(err))}", path=str(path)
        ) from err


def _unwrapped(found: dict[str, Any]) -> object:
    """The policy in an answer of this verb; the digest beside it is that of before somebody edited the file."""
    return found["policy"] if "policy" in found and found.keys() <= _ANSWER else found


def show(settings: Settings) -> Result:
    """Show the policy of the gate; what --json gives, kept in a file, is taken by `policy set` and `init --policy`."""
    view = the_gate(settings, the_store(settings))
    return _shown(view.policy, view.body.policy.digest, "The policy of the gate")


def set_policy(
    settings: Settings, file: Annotated[Path, typer.Argument(metavar="FILE", help="The new policy.")]
) -> Result:
    """Replace the policy; the governors of the old and of the new one sign."""
    from shardrel.gate.policy import set_policy as replace_policy
    from shardrel.gate.standing import restated

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    new = read_policy(file)
    by = governors(settings, view.policy, new)
    again = restatements(restated(store, view, new))
    done = replace_policy(store, settings.dataset, new, call(by, settings))
    headline = "The policy of the gate is replaced" if done.changed else "The policy of the gate holds already"
    return _shown(new, done.policy, headline, again=again)


def restatements(lost: "list[Restate]") -> list[dict[str, Any]]:
    """Roots that lose the word of keys that leave, and the verbs that give it back."""
    return [{"root": one.root, "verbs": list(one.verbs), "usedBy": list(one.used_by)} for one in lost]


def restatement_table(again: list[dict[str, Any]]) -> list[Table]:
    """The same for people; no table where nothing is lost."""
    rows = [(one["root"], ", ".join(one["verbs"]), ", ".join(one["usedBy"])) for one in again]
    return [Table(title="To be said again", columns=["root", "verbs", "used by"], rows=rows)] if rows else []


def governors(settings: Settings, old: "Policy", new: "Policy") -> "list[Signer]":
    """Keys here that govern under the old policy or the new one; both need their threshold.

    Raises:
        InvalidInputError: ``input.key``.
        TrustError: ``trust.role``.
    """
    from shardrel.trust.keys import key_id

    keys = {key_id(key.public): key for policy in (old, new) for key in signers(settings, policy, "governor")}
    return list(keys.values())


def _allowed(policy: "Policy") -> str:
    kinds = policy.schema_changes
    return "any, and nothing has to be compared" if kinds is None else f"only {', '.join(kinds) or 'none'}"


def _shown(policy: "Policy", digest: str, headline: str, *, again: list[dict[str, Any]] | None = None) -> Result:
    import msgspec

    from shardrel.trust.policy import ROLE_NAMES, role_of

    roles = {name: role_of(policy, name) for name in ROLE_NAMES}
    rows: list[tuple[Any, ...]] = [
        (name, role.threshold, ", ".join(key.name for key in role.keys)) for name, role in roles.items()
    ]
    more = {} if again is None else {"again": again}
    return Result(
        data={"policyDigest": digest, "policy": msgspec.to_builtins(policy), **more},
        headline=headline,
        facts=[
            ("digest", digest),
            ("separate duties", "yes" if policy.separate_duties else "no"),
            ("schema changes", _allowed(policy)),
        ],
        tables=[Table(columns=["role", "needed", "keys"], rows=rows), *restatement_table(again or [])],
    )
