"""The kept verdict of a probe: written by ``init`` and ``probe``, asked by every verb that writes.

Source: schemas/SPEC.md#store
"""

from shardrel.canonical import json
from shardrel.errors import ErrorCode, FormatError, RefusedError, UnavailableError
from shardrel.records.probe import KeptProbe
from shardrel.store.layout import gate_key, probe_key
from shardrel.store.port import ProbedServer, Store
from shardrel.store.probe import ProbeVerdict

_MAX_BYTES = 1 << 16


def keep(store: Store, dataset: str, found: ProbeVerdict, probed_on: str) -> None:
    """Keep what a probe found.

    Effects: one swap, whose outcome does not matter: where it does not land, whoever needs a verdict asks for
        a new probe. A store that failed may well refuse it.
    """
    data = json.encode(
        KeptProbe(
            verdict="PASSED" if found.conformant else "FAILED",
            failed=tuple(check.name for check in found.checks if check.required and not check.ok),
            advisory=tuple(check.name for check in found.checks if not check.required and not check.ok),
            quoted_tokens=found.quoted_tokens,
            probed_on=probed_on,
        )
    )
    store = speaking(store, quoted_tokens=found.quoted_tokens)
    key = probe_key(dataset)
    try:
        before = store.read(key, max_bytes=_MAX_BYTES)
        store.swap(key, data, None if before is None else before.token)
    except (RefusedError, UnavailableError):
        if found.conformant:
            raise


def kept(store: Store, dataset: str) -> KeptProbe | None:
    """What ``init`` or the last ``probe`` kept; None where nothing was, or nothing that this version reads."""
    stored = store.read(probe_key(dataset), max_bytes=_MAX_BYTES)
    try:
        return None if stored is None else json.decode(stored.data, KeptProbe)
    except FormatError:
        return None


def conforming(store: Store, dataset: str) -> Store:
    """The store, as its server wants to be spoken to, for somebody who is going to write to it.

    One read; one more where there is no verdict. A folder needs no verdict, but a failed one counts.

    Raises:
        RefusedError: ``storage.not-conformant``: the probe failed, or a gate stands on a store that none tried.
    """
    verdict = kept(store, dataset)
    if verdict is None:
        if store.url.startswith("s3://") and store.read(gate_key(dataset), max_bytes=json.MAX_RECORD_BYTES):
            raise RefusedError(
                ErrorCode.STORAGE_NOT_CONFORMANT,
                "nobody has probed this store; run: shardrel init",
                checks=[],
            )
        return store
    if verdict.verdict == "FAILED":
        raise RefusedError(
            ErrorCode.STORAGE_NOT_CONFORMANT,
            "the store failed its probe: " + ", ".join(verdict.failed) + "; `shardrel probe` says more",
            checks=list(verdict.failed),
        )
    return speaking(store, quoted_tokens=verdict.quoted_tokens)


def speaking(store: Store, *, quoted_tokens: bool) -> Store:
    """The store with tokens in the form that its server knows; only S3 servers have a choice."""
    return store.speaking(quoted_tokens=quoted_tokens) if isinstance(store, ProbedServer) else store
