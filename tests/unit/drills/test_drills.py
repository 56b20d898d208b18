"""Every drill is answered; none is once the guard that it is about is taken away."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shardrel.drills.catalogue import DRILLS, chosen
from shardrel.drills.cleanup import take_away
from shardrel.drills.drill import NOTHING
from shardrel.drills.faulty_store import Fault, FaultyStore, Rule
from shardrel.drills.scratch import scratch_policy
from shardrel.errors import ErrorCode, InvalidInputError, UnavailableError
from shardrel.gate.eligibility import Eligible
from shardrel.gate.publication import end_publication
from shardrel.gate.view import GateView
from shardrel.records.descriptor import PARQUET
from shardrel.records.gate import GateBody
from shardrel.records.release import Release
from shardrel.records.report import Counts, Report
from shardrel.store.layout import gate_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put
from shardrel.store.port import CreateOutcome, ObjectKey, Store, SwapOutcome, Token, Written
from shardrel.train.agreement import Agreed
from shardrel.trust.key_encryption import Unlocked
from shardrel.trust.signer import Signer
from tests.support.drills import a_scratch, outcome_of
from tests.support.publishing import NOW
from verifier.verify import World, sign, verify_release

FORGED = [
    "replaced-content",
    "replaced-source-version",
    "replaced-split",
    "duplicated-member",
    "omitted-descriptor",
    "extra-descriptor",
    "mix-and-match",
]


@pytest.mark.parametrize("name", [drill.name for drill in DRILLS])
def test_the_fault_is_answered(name: str, tmp_path: Path) -> None:
    outcome = outcome_of(name, a_scratch(tmp_path))
    assert (outcome.observed, outcome.ok) == (outcome.drill.expected, True)


@pytest.mark.parametrize("name", FORGED)
def test_nothing_but_the_declared_snapshot_gives_a_forger_away(name: str, tmp_path: Path) -> None:
    outcome = outcome_of(name, a_scratch(tmp_path))
    # What he adds may lie in another shard than its tuple belongs to.
    assert set(outcome.found) - {ErrorCode.ROOT_SHARDS} == {outcome.drill.expected}


def test_an_old_cache_entry_is_set_aside_and_fetched_again(tmp_path: Path) -> None:
    assert outcome_of("old-cache", a_scratch(tmp_path)).found == (ErrorCode.CACHE_CORRUPT,)


def test_names_are_unique_and_one_sentence_says_what_goes_wrong() -> None:
    assert len({drill.name for drill in DRILLS}) == len(DRILLS)
    assert all(drill.about.endswith(".") and drill.about.count(". ") == 0 for drill in DRILLS)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refused:
        chosen("no-such-drill")
    assert refused.value.code == ErrorCode.INPUT_INVALID


# Guards that are taken away, one after the other.


def credulous(store: Store, root: str, view: GateView, signer: Signer, unlocked: Unlocked) -> Report:
    """A verifier that signs PASSED, whatever it found."""
    world = World(signer=signer, now=lambda: NOW, progress=lambda done, total: None, unlocked=unlocked)
    report = verify_release(store, root, view, world=world).report
    sound = replace(report, verdict="PASSED", counts=Counts(), findings=(), findings_total=0)
    sign(store, sound, view, signer)
    return sound


@pytest.mark.parametrize(
    "name",
    [
        *FORGED,
        "truncated-shard",
        "swapped-shards",
        "reordered-shards",
        "endless-data",
        "wrong-dataset",
        "claimed-watermark",
        "hidden-schema-change",
        "exchanged-wrapped-keys",
        "plaintext-shard",
        "misplaced-ciphertext",
    ],
)
def test_a_verifier_that_passes_everything_fails_the_drill(name: str, tmp_path: Path) -> None:
    outcome = outcome_of(name, a_scratch(tmp_path, verify=credulous))
    assert (outcome.observed, outcome.ok) == (NOTHING, False)


class AnyToken(MemoryStore):
    """A store that ignores the condition of a swap."""

    def swap(self, key: ObjectKey, data: bytes, expected: Token | None) -> SwapOutcome:
        current = self.read(key, max_bytes=1 << 30)
        return super().swap(key, data, None if current is None else current.token)


@pytest.mark.parametrize("name", ["aba", "freeze"])
def test_a_store_that_ignores_tokens_fails_the_drill(name: str, tmp_path: Path) -> None:
    outcome = outcome_of(name, a_scratch(tmp_path, AnyToken()))
    assert (outcome.observed, outcome.ok) == (NOTHING, False)


class Overwriting(MemoryStore):
    """A store whose creates replace what is there."""

    def create(self, key: ObjectKey, data: bytes | memoryview) -> CreateOutcome:
        current = self.read(key, max_bytes=1 << 30)
        written = self.swap(key, bytes(data), None if current is None else current.token)
        assert isinstance(written, Written)
        return written


def test_a_store_whose_creates_replace_fails_the_drill(tmp_path: Path) -> None:
    outcome = outcome_of("late-acknowledgement", a_scratch(tmp_path, Overwriting()))
    assert (outcome.observed, outcome.ok) == (NOTHING, False)


def ended_whatever_the_pin(*arguments: Any, pin: int | None = None) -> Any:
    """End a publication by its name alone."""
    return end_publication(*arguments)


def nothing_closed(body: GateBody, wanted: Any, reason: Any) -> tuple[GateBody, tuple[str, ...]]:
    """Leave every permit open."""
    return body, ()


def nothing_done(store: Store, view: GateView, operation: object) -> None:
    """Forget that the operation had an effect."""


def eligible_anyway(body: Any, root: str, evidence: Any, policy: Any, **asked: Any) -> Eligible:
    """Let every candidate be used."""
    return Eligible(())


def agreed_on_anything(reports: Sequence[Any], run: str, root: str, release: Release, records: int) -> Agreed:
    """Let step 0 begin whatever the ranks say."""
    return Agreed(sizes=tuple(shard.records for shard in release.shards))


class Anything:
    """A digest that equals every other one."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ELIGIBLE = "shardrel.gate.transitions.admission.eligible"
GUARDS: list[tuple[str, str, Any]] = [
    ("lost-acknowledgement", "shardrel.gate.register.find_done", nothing_done),
    ("rollback", ELIGIBLE, eligible_anyway),
    ("stale-listing", ELIGIBLE, eligible_anyway),
    ("key-compromise", ELIGIBLE, eligible_anyway),
    ("name-reuse-after-retention", "publisher.publish.end_publication", ended_whatever_the_pin),
    ("deletion-during-run", "shardrel.gate.transitions.fences.close_permits", nothing_closed),
    ("fast-forward", "shardrel.drills.scratch.FENCE_STEP", 1000),
    ("gate-rollback", "shardrel.drills.anchors.must_extend", lambda *_: None),
    ("gate-replaced", "shardrel.drills.anchors.must_extend", lambda *_: None),
    ("retired-key", "shardrel.drills.anchors.must_extend", lambda *_: None),
    ("indefinite-freeze", "shardrel.drills.anchors.must_extend", lambda *_: None),
    ("recovery-rereads-alias", "shardrel.train.admission.agree", agreed_on_anything),
    ("old-cache", "shardrel.data.cache.digest_of", lambda data: Anything()),
]


@pytest.mark.parametrize(("name", "guard", "broken"), GUARDS, ids=[name for name, _, _ in GUARDS])
def test_without_its_guard_the_drill_fails(
    name: str, guard: str, broken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, broken)
    outcome = outcome_of(name, a_scratch(tmp_path))
    assert (outcome.observed, outcome.ok) == (NOTHING, False)


def test_a_drill_that_cannot_be_set_up_has_failed(tmp_path: Path) -> None:
    scratch = a_scratch(tmp_path)
    scratch.scene("rollback", policy=replace(scratch_policy(scratch.keys), rollback_window=9))
    outcome = outcome_of("rollback", scratch)
    assert (outcome.ok, outcome.observed) == (False, f"broken ({ErrorCode.GATE_EXISTS})")


def test_a_store_that_does_not_answer_gives_no_verdict(tmp_path: Path) -> None:
    deaf = FaultyStore(MemoryStore(), [Rule(operation="swap", fault=Fault.FAIL_BEFORE, times=None)])
    with pytest.raises(UnavailableError) as silent:
        outcome_of("rollback", a_scratch(tmp_path, deaf))
    assert silent.value.code == ErrorCode.STORE_UNAVAILABLE


def test_a_scratch_store_is_taken_away_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object may be larger than anything that a drill reads."""
    store = MemoryStore()
    put(store, b"bytes", PARQUET)
    store.swap(gate_key("data"), b"one", None)
    monkeypatch.setattr(MemoryStore, "read", None)
    assert take_away(store, [])
    assert list(store.list("")) == []
