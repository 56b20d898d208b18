"""No file of a bundle can be changed, cut short, removed, replaced or added without being named."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardrel.canonical import json
from shardrel.lab import bundle as bundles
from shardrel.lab import inventory
from shardrel.lab.bundle import AUDIT, RECOVERED, RECOVERY, REFERENCE, RETAINED, SIGNATURE, STORES
from shardrel.lab.inventory import RETAINED_PAYLOAD
from shardrel.lab.verify import verify_bundle
from shardrel.trust.envelope import seal
from tests.support.lab import PACKAGE, Drilled

RECORDS = [REFERENCE, RECOVERED, RECOVERY, SIGNATURE, RETAINED, AUDIT]


def flipped(data: bytes) -> bytes:
    """One bit in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :] if data else b"\1"


CHANGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flipped,
    "cut": lambda data: data[:-1] if data else b"\0",
    "longer": lambda data: data + b"\0",
    "removed": lambda data: None,
}


@pytest.fixture(scope="module")
def bundle(fsync: Drilled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which no two stores share a file."""
    folder = tmp_path_factory.mktemp("tampering") / "bundle"
    shutil.copytree(fsync.folder, folder)
    return folder


@contextmanager
def changed(path: Path, data: bytes | None) -> Iterator[None]:
    """The file with other bytes, or absent, for a while."""
    before = path.read_bytes()
    if data is None:
        path.unlink()
    else:
        path.chmod(0o600)
        path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def failures(drilled: Drilled, folder: Path) -> set[str]:
    return {one.check for one in verify_bundle(folder, [drilled.key.public], drilled.pins, PACKAGE).failures}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_copy_without_links_passes(fsync: Drilled, bundle: Path) -> None:
    assert failures(fsync, bundle) == set()


def check_listed(drilled: Drilled, bundle: Path, step: int) -> None:
    """Each of every so many files of the stores is named, whatever was done to it."""
    said = inventory.opened((bundle / RETAINED).read_bytes(), [drilled.key.public])
    for path in files(bundle / STORES)[::step]:
        for name, change in CHANGES.items():
            with changed(path, change(path.read_bytes())):
                seen = inventory.take(bundle / STORES)
            named = inventory.differences(said.files, seen)
            assert named == [path.relative_to(bundle / STORES).as_posix()], name


def test_some_files_of_the_stores(fsync: Drilled, bundle: Path) -> None:
    check_listed(fsync, bundle, 9)


@pytest.mark.slow
def test_every_file_of_the_stores(fsync: Drilled, bundle: Path) -> None:
    check_listed(fsync, bundle, 1)


def check_bytes(drilled: Drilled, bundle: Path, name: str, count: int) -> None:
    """So many bits, evenly spread, and as many lengths."""
    path = bundle / name
    data = path.read_bytes()
    for number in range(count):
        at = number * (len(data) - 1) // max(count - 1, 1)
        for bad in (data[:at] + bytes([data[at] ^ (1 << number % 8)]) + data[at + 1 :], data[:at]):
            with changed(path, bad):
                assert failures(drilled, bundle), (name, at)


@pytest.mark.parametrize("name", RECORDS)
def test_some_bits_and_lengths_of_every_record(fsync: Drilled, bundle: Path, name: str) -> None:
    check_bytes(fsync, bundle, name, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_many_bits_and_lengths_of_every_record(fsync: Drilled, bundle: Path, name: str) -> None:
    check_bytes(fsync, bundle, name, 60)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_a_file_of_each_kind_in_the_stores(fsync: Drilled, bundle: Path, change: str) -> None:
    kinds = {path.relative_to(bundle / STORES).parts[:3]: path for path in files(bundle / STORES)}
    for path in kinds.values():
        with changed(path, CHANGES[change](path.read_bytes())):
            assert "retained" in failures(fsync, bundle), path


@pytest.mark.parametrize("name", [SIGNATURE, RETAINED])
def test_an_envelope_has_one_form(fsync: Drilled, bundle: Path, name: str) -> None:
    """DSSE would take the key's name for a hint, and a signature more."""
    path = bundle / name
    data = path.read_bytes()
    key = data.index(b'"keyid":"') + len(b'"keyid":"')
    renamed = data[:key] + (b"0" if data[key : key + 1] != b"0" else b"1") + data[key + 1 :]
    spaced = data.replace(b'"payload":', b'"payload": ', 1)
    twice = data.replace(b'"signatures":[', b'"signatures":[' + data[data.index(b"[") + 1 : data.index(b"]")] + b",")
    for bad in (renamed, spaced, twice):
        assert bad != data
        with changed(path, bad):
            assert failures(fsync, bundle) & {"signature", "retained"}


def test_the_list_of_another_drill_is_not_this_ones(fsync: Drilled, rename: Drilled, bundle: Path) -> None:
    with changed(bundle / RETAINED, (rename.folder / RETAINED).read_bytes()):
        assert {"binding", "retained"} <= failures(fsync, bundle)


def test_a_list_made_anew_by_the_key_hides_no_lost_checkpoint(fsync: Drilled, bundle: Path) -> None:
    """What the holder of the key lists is computed again all the same."""
    audit = bundles.read(bundle).audit_bytes
    [largest] = sorted(files(bundle / STORES / "crash" / "objects"), key=lambda path: path.stat().st_size)[-1:]
    with changed(largest, None):
        sealed = inventory.sealed(bundle / STORES, audit, fsync.key)
        with changed(bundle / RETAINED, sealed):
            assert failures(fsync, bundle) == {"recompute"}


def test_another_payload_under_the_signature_is_no_list(fsync: Drilled, bundle: Path) -> None:
    for payload in (b"{}", json.encode({"schema": "training.shard.lab-retained.v1"})):
        with changed(bundle / RETAINED, seal(payload, RETAINED_PAYLOAD, [fsync.key])):
            assert failures(fsync, bundle) == {"retained"}


def test_what_is_no_file_is_named_and_not_waited_for(fsync: Drilled, bundle: Path) -> None:
    for path, check in ((bundle / AUDIT, "structure"), (files(bundle / STORES)[0], "retained")):
        held = path.with_name("held")
        path.rename(held)
        try:
            os.mkfifo(path)
            assert check in failures(fsync, bundle)
            path.unlink()
            path.symlink_to(held)
            assert check in failures(fsync, bundle)
        finally:
            path.unlink()
            held.rename(path)


def test_a_file_or_a_link_more_in_a_store_is_named(fsync: Drilled, bundle: Path) -> None:
    for make in (lambda path: path.write_text("more"), lambda path: path.symlink_to(bundle)):
        more = bundle / STORES / "crash" / "more"
        make(more)
        try:
            assert "retained" in failures(fsync, bundle)
        finally:
            more.unlink()
