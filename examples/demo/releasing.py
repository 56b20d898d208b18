"""The chapters that make a release, and the one that takes a record out of it again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.demo.corpus import write_corpus
from examples.demo.narrator import Narrator, insist

SHARDS = 24
ALIAS = "prod"
COLUMNS = ("--id-column", "path", "--source-column", "package")
WITHDRAWN = "json/decoder.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """An admitted release."""

    root: str
    generation: int
    records: int


def gather(tell: Narrator) -> int:
    """Chapter: a corpus.

    Returns:
        Its records.
    """
    tell.chapter("A corpus: the sources of this Python's standard library")
    corpus = write_corpus(tell.folder / "corpus")
    tell.say(f"    {corpus.records} modules, {corpus.characters:,} characters, written as JSON Lines;")
    tell.say(f"    {corpus.undecodable} more do not decode by their own declared encoding and are left out")
    insist(corpus.records > 300, "the standard library has too few modules here")
    insist((tell.folder / "corpus").is_dir(), "there is no corpus")
    return corpus.records


def release(tell: Narrator, records: int) -> Released:
    """Chapter: from a folder of files to a release that an alias points to."""
    tell.chapter("A release: snapshot, publish, verify, approve, admit")
    tell.shardrel("init", show=("gateId",))
    declared = tell.shardrel("snapshot", "corpus", *COLUMNS, show=("snapshot", "records"))
    insist(declared["records"] == records, "the snapshot has other records than the corpus")
    return publish_and_admit(tell, declared["snapshot"], records, generation=1)


def publish_and_admit(tell: Narrator, snapshot: str, records: int, *, generation: int) -> Released:
    """Take a snapshot all the way to the alias, and see on the way what may not be done too early."""
    published = publish(tell, snapshot)
    root = published["root"]
    insist(published["records"] == records, "the release has other records than its snapshot")
    again = tell.shardrel("publish", snapshot, "--source", "corpus", "--shards", str(SHARDS))
    insist(again["root"] == root and again["alreadyPresent"] >= SHARDS, "a second publish wrote something else")
    tell.say("    a second publish gives the same root and writes no shard")
    tell.refused("admit", root, "--alias", ALIAS, code="gate.not-verified")
    report = tell.shardrel("verify", root, show=("verdict", "report"))
    insist(report["verdict"] == "PASSED" and not any(report["counts"].values()), "an honest release did not pass")
    tell.refused("admit", root, "--alias", ALIAS, code="gate.not-approved")
    tell.shardrel("approve", root, "--key", "approver", show=("approvals",))
    expected = str(generation - 1)
    admitted = tell.shardrel(
        "admit", root, "--alias", ALIAS, "--expect-generation", expected, show=("alias", "generation", "permit")
    )
    insist(admitted["generation"] == generation, "the alias is at another generation")
    return Released(root=root, generation=generation, records=records)


def publish(tell: Narrator, snapshot: str) -> dict[str, Any]:
    """Publish the corpus as it was declared."""
    show = ("root", "state", "shards", "records", "excluded", "storedBytes")
    published = tell.shardrel("publish", snapshot, "--source", "corpus", "--shards", str(SHARDS), show=show)
    insist(published["shards"] == SHARDS and published["state"] == "STAGED", "the release is not staged as told")
    return published


def withdraw(tell: Narrator, before: Released) -> Released:
    """Chapter: one file has to go, now and everywhere."""
    tell.chapter(f"A deletion: {WITHDRAWN} has to go")
    (tell.folder / "tombstones.jsonl").write_text(
        json.dumps({"sequence": 1, "sampleId": WITHDRAWN, "reason": "owner.request"}) + "\n"
    )
    fenced = tell.shardrel("fence", "tombstones", "tombstones.jsonl", show=("watermark", "closedPermits"))
    insist(fenced["watermark"] == 1 and fenced["closedPermits"] != [], "the fence closed no permit")
    tell.say("  the run that is under way has no permit any more, and no new one starts")
    tell.refused("run", "renew", "broken", code="permit.recheck-needed")
    tell.refused("run", "start", "--alias", ALIAS, code="gate.not-verified-at-fences")
    recheck = tell.shardrel("verify", before.root, "--fences-only", expect=1, show=("verdict",))
    insist(recheck["counts"]["tombstoneHits"] == 1, "the re-check did not find the one hit")
    tell.say(f"    found: {recheck['findings'][0]['code']}, {recheck['counts']['tombstoneHits']} member")
    tell.refused("run", "renew", "broken", code="permit.root-has-hit")
    tell.refused("run", "start", "--alias", ALIAS, code="permit.root-has-hit")
    tell.shardrel("run", "cancel", "broken", show=("state",))
    tell.say("  a release without it")
    tell.refused("snapshot", "corpus", *COLUMNS, code="tombstone.hit")
    declared = tell.shardrel("snapshot", "corpus", *COLUMNS, "--apply-tombstones", show=("snapshot", "records"))
    insist(declared["records"] == before.records - 1, "not exactly one record was left out")
    now = publish_and_admit(tell, declared["snapshot"], before.records - 1, generation=before.generation + 1)
    tell.say(
        "  and for whoever asked, a file that needs neither store nor key: it was in the one, and is not in the other"
    )
    show_presence(tell, before.root, "before.json", present=True)
    show_presence(tell, now.root, "after.json", present=False)
    return now


def show_presence(tell: Narrator, root: str, file: str, *, present: bool) -> None:
    """Prove whether the withdrawn file is in a release, and check the proof without the store."""
    proved = tell.shardrel("prove", WITHDRAWN, "--root", root, "--out", file, show=("present", "bytes"))
    checked = tell.on("no-store").shardrel(
        "check-proof", file, "--root", root, "--sample-id", WITHDRAWN, show=("valid", "tombstoneWatermark")
    )
    insist(proved["present"] is present is checked["present"], f"{WITHDRAWN} is proved to be where it is not")
    insist(not (tell.folder / "no-store").exists(), "the check of a proof looked for a store")


def last_word(tell: Narrator, now: Released) -> None:
    """Chapter: what the gate remembers."""
    tell.chapter("What the gate says now")
    state = tell.shardrel("status", show=("aliases", "tombstoneWatermark", "benchmarkFence"))
    insist(state["aliases"][ALIAS] == {"root": now.root, "generation": now.generation}, "the alias points elsewhere")
    log = tell.shardrel("log")
    tell.say(f"    {len(log['transitions'])} transitions, hash-chained and signed, checked from the first to the last")
    pulled = tell.shardrel("pull", now.root, "--to", "pulled", show=("shards", "bytes"))
    insist(
        pulled["shards"] == SHARDS and len(list(Path(tell.folder / "pulled").glob("*.parquet"))) == SHARDS,
        "shards are missing",
    )
