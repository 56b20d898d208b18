"""A bundle is what it says, and says so no more after any change."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.lab import bundle as bundles
from shardrel.lab import inventory
from shardrel.lab.bundle import AUDIT, RECOVERED, RECOVERY, REFERENCE, RETAINED, SIGNATURE, STORES, Bundle
from shardrel.lab.evidence import EVIDENCE_PAYLOAD
from shardrel.lab.verify import verify_bundle
from shardrel.trust.envelope import seal
from shardrel.trust.keys import generate
from tests.support.lab import PACKAGE, Drilled


def failures(drilled: Drilled, folder: Path) -> set[str]:
    return {one.check for one in verify_bundle(folder, [drilled.key.public], drilled.pins, PACKAGE).failures}


def copied(drilled: Drilled, tmp_path: Path) -> Path:
    shutil.copytree(drilled.folder, tmp_path / "bundle")
    return tmp_path / "bundle"


def forged(drilled: Drilled, folder: Path, change: Callable[[Bundle], Bundle]) -> None:
    """Rewrite the records, with digests and signature made anew, as the holder of the key could."""
    made = change(bundles.read(folder))
    files = bundles.encode(made.reference, made.recovered, made.recovery)
    audit = json.encode(replace(made.audit, files=tuple(bundles.state(name, data) for name, data in files)))
    envelopes = (
        (SIGNATURE, seal(audit, EVIDENCE_PAYLOAD, [drilled.key])),
        (RETAINED, inventory.sealed(folder / STORES, audit, drilled.key)),
    )
    for name, data in (*files, (AUDIT, audit), *envelopes):
        (folder / name).write_bytes(data)


def with_(field: str, change: Callable[[Bundle], object]) -> Callable[[Bundle], Bundle]:
    return lambda found: dataclasses.replace(found, **{field: change(found)})


def test_bundles_of_both_barriers_pass(fsync: Drilled, rename: Drilled) -> None:
    assert failures(fsync, fsync.folder) == set()
    assert failures(rename, rename.folder) == set()


def test_nothing_but_the_bundle_is_left(fsync: Drilled) -> None:
    assert {path.name for path in fsync.folder.iterdir()} == {
        REFERENCE,
        RECOVERED,
        RECOVERY,
        SIGNATURE,
        RETAINED,
        AUDIT,
        STORES,
    }
    assert not list(fsync.folder.rglob("*.pem"))


def test_records_name_no_path_and_no_time(fsync: Drilled) -> None:
    for name in (REFERENCE, RECOVERED, RECOVERY, AUDIT):
        text = (fsync.folder / name).read_text()
        assert not [word for word in (str(fsync.folder), "/tmp", "2026-", "127.0.0.1") if word in text]


@pytest.mark.parametrize("name", [REFERENCE, RECOVERED, RECOVERY, SIGNATURE, RETAINED, AUDIT])
def test_a_file_that_is_absent_is_named(fsync: Drilled, tmp_path: Path, name: str) -> None:
    folder = copied(fsync, tmp_path)
    (folder / name).unlink()
    [failure] = verify_bundle(folder, [fsync.key.public], fsync.pins, PACKAGE).failures
    assert (failure.check, failure.subject) == ("structure", f"{name}: storage.object-absent")


def test_a_file_in_another_form_is_refused(fsync: Drilled, tmp_path: Path) -> None:
    folder = copied(fsync, tmp_path)
    (folder / RECOVERY).write_bytes((folder / RECOVERY).read_bytes() + b"\n")
    assert failures(fsync, folder) == {"structure"}


def test_a_file_more_is_noticed(fsync: Drilled, tmp_path: Path) -> None:
    folder = copied(fsync, tmp_path)
    (folder / "note.txt").write_text("hello")
    assert failures(fsync, folder) == {"structure"}


def test_another_key_is_not_the_signers(fsync: Drilled) -> None:
    found = verify_bundle(fsync.folder, [generate("other").public], fsync.pins, PACKAGE).failures
    assert {(one.check, one.subject) for one in found} == {
        ("signature", "trust.bad-signature"),
        ("retained", "trust.bad-signature"),
    }


def test_facts_that_were_changed_do_not_fit_the_audit(fsync: Drilled, rename: Drilled, tmp_path: Path) -> None:
    folder = copied(fsync, tmp_path)
    shutil.copy(rename.folder / RECOVERY, folder / RECOVERY)
    assert {"binding", "state"} <= failures(fsync, folder)


FORGERIES = {
    "evaluation": with_("recovered", lambda b: replace(b.recovered, correct=b.recovered.correct + 1)),
    "logits": with_("recovered", lambda b: replace(b.recovered, logits="00" + b.recovered.logits[2:])),
    "choice": with_("recovery", lambda b: replace(b.recovery, replayed=0)),
    "transcript": with_("recovery", lambda b: replace(b.recovery, events=b.recovery.events[1:])),
    "exits": with_("recovery", lambda b: replace(b.recovery, publisher=replace(b.recovery.publisher, status=0))),
    "ledger": with_("audit", lambda b: replace(b.audit, seed=b.audit.seed + 1)),
    "package": with_("audit", lambda b: replace(b.audit, package=b.audit.root)),
    "data": with_("audit", lambda b: replace(b.audit, resources=b.audit.resources[::-1])),
    "lineage": with_("recovery", lambda b: replace(b.recovery, lineages=b.recovery.lineages[::-1])),
}


@pytest.mark.parametrize("check", FORGERIES)
def test_forged_facts_under_a_good_signature_are_found(fsync: Drilled, tmp_path: Path, check: str) -> None:
    folder = copied(fsync, tmp_path)
    forged(fsync, folder, FORGERIES[check])
    assert check in failures(fsync, folder)


def test_both_evaluations_forged_alike_are_found_by_computing_them_again(fsync: Drilled, tmp_path: Path) -> None:
    def change(found: Bundle) -> Bundle:
        sides = {name: replace(getattr(found, name), correct=1) for name in ("reference", "recovered")}
        return dataclasses.replace(found, **sides)

    folder = copied(fsync, tmp_path)
    forged(fsync, folder, change)
    assert failures(fsync, folder) == {"evaluation"}


def test_a_retained_object_with_a_flipped_bit_is_found(fsync: Drilled, tmp_path: Path) -> None:
    folder = copied(fsync, tmp_path)
    last = bundles.read(folder).recovery.lineages[1].checkpoints[-1]
    assert last.generation == 2
    objects = sorted((folder / "stores" / "crash" / "objects").rglob("*"), key=lambda path: path.stat().st_mtime)
    target = [path for path in objects if path.is_file() and path.stat().st_size > 100_000][-1]
    data = bytearray(target.read_bytes())
    data[len(data) // 2] ^= 1
    target.write_bytes(data)
    assert failures(fsync, folder) == {"recompute", "retained"}


def test_a_retained_store_without_its_gate_is_found(fsync: Drilled, tmp_path: Path) -> None:
    folder = copied(fsync, tmp_path)
    shutil.rmtree(folder / "stores" / "continued" / "gates")
    assert failures(fsync, folder) == {"recompute", "retained"}
