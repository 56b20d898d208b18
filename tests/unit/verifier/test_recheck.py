"""Which reports a recheck builds on, and what it reads."""

import pytest
from msgspec.structs import replace

from shardrel.drills.recording_store import RecordingStore
from shardrel.errors import ErrorCode
from shardrel.store.layout import object_key
from tests.support import gates
from tests.support.benchmark_texts import text_entry
from tests.support.release_builder import a_release, a_world, codes
from tests.unit.gate.bodies import known
from tests.unit.verifier.test_verify import fence, first, gate_of, tombstone
from verifier.recheck import _passed, recheck_fences


def test_a_report_with_findings_has_not_passed_whatever_its_counts_say() -> None:
    report = gates.a_report(known(), gates.a_root("one"))
    assert _passed(report)
    assert not _passed(replace(report, findings_total=1))


def test_parts_in_whose_range_nothing_is_named_are_not_read() -> None:
    built = a_release()
    built.verified(built.root)
    [part, *_] = built.snapshot.parts
    fence(built, "tombstones", tombstone(1, sample_id="zzz behind every part"))
    assert (part.last_sample_id or "") < "zzz"
    recording = RecordingStore(built.store)
    done = recheck_fences(recording, built.root, gate_of(built), world=a_world(built.made))
    assert done.report.verdict == "PASSED"
    assert not [key for _, key in recording.requests if key == object_key(part.object.digest)]
    fence(built, "tombstones", tombstone(2, source_id="nowhere"))
    recording = RecordingStore(built.store)
    recheck_fences(recording, built.root, gate_of(built), world=a_world(built.made))
    assert [key for _, key in recording.requests if key == object_key(part.object.digest)]


@pytest.mark.parametrize("selector", ["sample", "text"])
def test_bytes_that_changed_since_are_found(selector: str) -> None:
    built = a_release()
    built.verified(built.root)
    named = tombstone(1, sample_id=first(built, "_shardrel_sample_id"))
    if selector == "text":
        fence(built, "benchmarks", text_entry(1, "three words here", words=3))
        digest = built.release.shards[0].digest
    else:
        fence(built, "tombstones", named)
        digest = built.snapshot.parts[0].object.digest
    key = object_key(digest)
    stored = built.store.read(key, max_bytes=1 << 30)
    assert stored is not None
    built.store.delete(key, stored.version)
    report = recheck_fences(built.store, built.root, gate_of(built), world=a_world(built.made)).report
    assert (report.verdict, codes(report)) == ("FAILED", {ErrorCode.STORAGE_ABSENT})
