"""The keys that scripts rely on, verb by verb."""

import json
from pathlib import Path

import pytest

from shardrel import __version__
from tests.support.command import Command, shardrel_in

TEXTS = [f"text number {number}" for number in range(30)]


@pytest.fixture
def shardrel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    command = shardrel_in(tmp_path, monkeypatch, capsys)
    Path("texts.jsonl").write_text(
        "".join(json.dumps({"id": f"t{n}", "text": text}) + "\n" for n, text in enumerate(TEXTS))
    )
    return command


@pytest.fixture
def root(shardrel: Command) -> str:
    """A verified and approved release."""
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    found = str(shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")["root"])
    shardrel("verify", found)
    shardrel("approve", found)
    return found


def test_the_version_is_told_without_a_verb_or_a_store(shardrel: Command) -> None:
    assert shardrel("--version") == {"version": __version__}
    assert not Path(".shardrel").exists()


def test_init_keys_and_policy(shardrel: Command) -> None:
    gate = shardrel("init")
    assert gate.keys() >= {"dataset", "gateId", "policyDigest"}
    assert {key["name"] for key in shardrel("keys", "show")["keys"]} == {"publisher", "verifier", "approver", "admin"}
    made = shardrel("keys", "make", "second")["keys"]
    assert [key["name"] for key in made] == ["second"]
    assert made[0].keys() >= {"keyId", "scheme", "public"}
    assert shardrel("policy", "show")["policyDigest"] == gate["policyDigest"]


def test_a_policy_from_a_file_replaces_the_policy(shardrel: Command) -> None:
    shardrel("init")
    second = shardrel("keys", "make", "second")["keys"][0]
    policy = shardrel("policy", "show")["policy"]
    approvers = policy["roles"]["approver"]
    approvers["keys"].append({name: second[name] for name in ("name", "scheme", "public")})
    approvers["threshold"] = 2
    Path("policy.json").write_text(json.dumps(policy))
    replaced = shardrel("policy", "set", "policy.json")["policyDigest"]
    assert shardrel("policy", "show")["policyDigest"] == replaced
    assert shardrel("init")["policyDigest"] == replaced
    Path("policy.json").write_text("{")
    assert shardrel.code("policy", "set", "policy.json", status=2) == "input.policy"


def test_a_policy_with_other_governors_is_signed_by_the_keys_of_both(shardrel: Command) -> None:
    shardrel("init")
    second = shardrel("keys", "make", "second")["keys"][0]
    policy = shardrel("policy", "show")["policy"]
    policy["roles"]["governor"]["keys"] = [{name: second[name] for name in ("name", "scheme", "public")}]
    Path("policy.json").write_text(json.dumps(policy))
    Path(".shardrel/keys/second.pem").rename("elsewhere.pem")
    assert shardrel.code("policy", "set", "policy.json", status=2) == "input.key"
    Path("elsewhere.pem").rename(".shardrel/keys/second.pem")
    replaced = shardrel("policy", "set", "policy.json")["policyDigest"]
    assert shardrel("policy", "set", "policy.json")["policyDigest"] == replaced
    assert shardrel("log")["transitions"][-1]["kind"] == "set-policy"


def test_snapshot_and_publish(shardrel: Command) -> None:
    shardrel("init")
    declared = shardrel("snapshot", "texts.jsonl", "--id-column", "id")
    assert declared.keys() >= {"snapshot", "records", "recordSchema"}
    assert declared["records"] == len(TEXTS)
    published = shardrel("publish", declared["snapshot"], "--source", "texts.jsonl", "--shard-size", "1KiB")
    wanted = {"root", "contentDigest", "state", "shards", "records", "excluded", "storedBytes", "alreadyPresent"}
    assert published.keys() >= wanted
    assert published["shards"] > 1
    again = shardrel("publish", declared["snapshot"], "--source", "texts.jsonl", "--shard-size", "1024")
    assert (again["root"], again["alreadyPresent"]) == (published["root"], published["shards"])


def test_a_snapshot_is_published_by_its_own_gate_alone(shardrel: Command) -> None:
    shardrel("init")
    shardrel("init", "--dataset", "other")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    line = ("publish", snapshot, "--source", "texts.jsonl", "--shards", "2")
    before = shardrel("status")["sequence"]
    assert shardrel.code(*line, "--dataset", "other") == "gate.wrong-gate"
    assert shardrel("status")["sequence"] == before
    assert shardrel(*line)["state"] == "STAGED"


@pytest.mark.parametrize(
    "options",
    [
        ("--shards", "2", "--shard-size", "10"),
        ("--shard-size", "much"),
        ("--compression", "zstd:99"),
        ("--compression", "rar"),
        ("--compression", "snappy:1"),
        ("--shards", "0"),
    ],
)
def test_a_wrong_option_of_publish_is_a_wrong_call(shardrel: Command, options: tuple[str, ...]) -> None:
    digest = "sha256:" + "0" * 64
    assert shardrel.code("publish", digest, "--source", "x", *options, status=2) == "input.invalid"


def test_digest_by_both_encoders(shardrel: Command) -> None:
    by_publisher = shardrel("digest", "texts.jsonl")["files"]
    assert by_publisher == shardrel("digest", "texts.jsonl", "--by", "verifier")["files"]
    assert by_publisher[0].keys() >= {"path", "records", "schemaDigest", "logicalDigest"}


def test_verify_approve_admit_and_rollback(shardrel: Command, root: str) -> None:
    report = shardrel("verify", root)
    assert report.keys() >= {"root", "verdict", "counts", "findings", "report"}
    assert report["counts"] == dict.fromkeys(
        [
            "missing",
            "extra",
            "duplicate",
            "substituted",
            "splitConflict",
            "tombstoneHits",
            "benchmarkHits",
            "digestFailures",
        ],
        0,
    )
    assert shardrel("approve", root).keys() >= {"root", "approvals"}
    assert shardrel.code("approve", root, "--key", "publisher") == "trust.role"
    moved = shardrel("admit", root, "--alias", "prod", "--operation-id", "mine")
    assert moved.keys() >= {"alias", "root", "generation", "permit"}
    assert shardrel("admit", root, "--alias", "prod", "--operation-id", "mine")["generation"] == 1
    assert shardrel("rollback", "--alias", "prod", "--to", root[:20], "--expect-generation", "1")["generation"] == 2


@pytest.mark.parametrize("generation", ["-1", str(1 << 53), "9" * 30])
def test_a_generation_that_no_alias_can_have_is_a_wrong_call(shardrel: Command, root: str, generation: str) -> None:
    assert (
        shardrel.code("admit", root, "--alias", "prod", "--expect-generation", generation, status=2) == "input.invalid"
    )


def test_fence_status_and_log(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    fenced = shardrel("fence", "tombstones", "tombstones.jsonl")
    assert fenced.keys() >= {"kind", "watermark", "closedPermits"}
    assert shardrel("fence", "tombstones", "tombstones.jsonl")["closedPermits"] == []
    assert shardrel("verify", root, "--fences-only")["verdict"] == "PASSED"
    state = shardrel("status")
    assert state.keys() >= {"aliases", "tombstoneWatermark", "benchmarkFence", "permits", "runs", "candidates"}
    assert state["candidates"] == {root: "ADMITTED"}
    history = shardrel("log")
    Path("before.json").write_text(json.dumps(history))
    assert shardrel.code("log", "--against", "nowhere.json", status=2) == "input.no-such-file"
    assert shardrel("log", "--against", "before.json")["transitions"] == history["transitions"]
    newest = shardrel("log", "--limit", "2")
    assert (newest["transitions"], newest["total"]) == (history["transitions"][-2:], len(history["transitions"]))
    Path("newest.json").write_text(json.dumps(newest))
    assert shardrel.code("log", "--against", "newest.json", status=2) == "input.invalid"
    Path("empty.json").write_text('{"transitions": []}')
    assert shardrel.code("log", "--against", "empty.json", status=2) == "input.invalid"
    history["transitions"].append({**history["transitions"][-1], "digest": "sha256:" + "0" * 64})
    Path("before.json").write_text(json.dumps(history))
    assert shardrel.code("log", "--against", "before.json") == "gate.history-broken"


def test_benchmarks_by_words_from_the_fence_to_a_release_without_them(shardrel: Command, root: str) -> None:
    Path("benchmarks.jsonl").write_text(
        '{"sequence": 1, "benchmark": "exam", "text": "What follows TEXT: number 4?", "words": 3}\n'
        '{"sequence": 2, "benchmark": "exam", "text": "Text -- NUMBER 5", "words": 3}\n'
        '{"sequence": 3, "benchmark": "exam", "text": "text number 7"}\n'
    )
    assert shardrel("fence", "benchmarks", "benchmarks.jsonl")["watermark"] == 3
    found = shardrel("verify", root, "--fences-only", status=1)
    assert (found["verdict"], found["counts"]["benchmarkHits"], found["kind"]) == ("FAILED", 3, "delta")
    assert not [word for word in ("text", "number") if word in json.dumps(found["findings"])]
    assert shardrel.code("snapshot", "texts.jsonl", "--id-column", "id", status=1) == "benchmark.hit"
    declared = shardrel("snapshot", "texts.jsonl", "--id-column", "id", "--apply-tombstones")
    assert (declared["leftOut"], declared["records"]) == (3, 27)
    clean = shardrel("publish", declared["snapshot"], "--source", "texts.jsonl", "--shards", "2")["root"]
    assert shardrel("verify", clean)["verdict"] == "PASSED"


def test_affected_by_tombstones_and_benchmarks(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    shardrel("run", "start", "--alias", "prod", "--run-id", "job")
    Path("tombstones.jsonl").write_text('{"sequence": 9, "sampleId": "t3"}\n')
    Path("benchmarks.jsonl").write_text(
        '{"sequence": 1, "benchmark": "exam", "text": "And so: TEXT, number 4!", "words": 3}\n'
    )
    found = shardrel("affected", "--tombstones", "tombstones.jsonl", "--benchmarks", "benchmarks.jsonl")
    assert found["roots"] == [{"root": root, "state": "ADMITTED", "members": 2, "complete": True}]
    assert found["aliases"] == [{"alias": "prod", "generation": 1, "root": root}]
    assert found["runs"] == [{"run": "job", "state": "open", "root": root}]
    assert (found["checkpoints"], found["unreadable"], found["gone"]) == ([], [], [])
    alone = shardrel("affected", "--tombstones", "tombstones.jsonl")
    assert (alone["roots"][0]["members"], alone["read"], alone["passedOver"], alone["known"]) == (1, 1, 0, 1)
    assert shardrel.code("affected", status=2) == "input.invalid"


def test_the_log_is_exported_and_held_against_what_was_kept(shardrel: Command) -> None:
    shardrel("init")
    first = shardrel("log", "--export", "kept")["export"]
    assert (first["size"], first["checkpoints"], first["added"]) == (1, 1, True)
    assert first["verifierKeys"][0].startswith(f"{first['origin']}+")
    assert shardrel("log", "--export", "kept")["export"]["added"] is False
    state = Path(".shardrel/store/gates/default/state")
    old = state.read_bytes()
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    shardrel("fence", "tombstones", "tombstones.jsonl")
    assert shardrel("log", "--against", "kept")["against"]["size"] == 1
    assert shardrel("log", "--export", "kept", "--against", "kept")["export"]["size"] == 2
    state.write_bytes(old)
    assert shardrel.code("log", "--against", "kept") == "gate.history-broken"
    assert shardrel.code("log", "--export", "kept") == "gate.history-broken"
    shardrel("init", "--dataset", "other")
    assert shardrel.code("log", "--against", "kept", "--dataset", "other") == "gate.wrong-gate"
    Path("kept").write_text("something else")
    assert shardrel.code("log", "--against", "kept", status=2) == "input.invalid"
    assert shardrel.code("log", "--export", "nowhere/kept", status=2) == "input.invalid"
    assert shardrel.code("log", "--export", "new", "--key", "verifier") == "trust.role"


def test_nothing_in_use_has_all_counts(shardrel: Command, root: str) -> None:
    checked = shardrel("verify", "--in-use")
    assert (checked["verdict"], checked["counts"]["tombstoneHits"], len(checked["counts"])) == ("PASSED", 0, 8)


def test_a_staged_advance_stalls_nobody(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    run = shardrel("run", "start", "--alias", "prod", "--run-id", "busy")
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "nobody"}\n')
    staged = shardrel("fence", "tombstones", "tombstones.jsonl", "--stage")
    assert (staged["watermark"], staged["staged"], staged["closedPermits"]) == (0, 1, [])
    assert shardrel("status")["staged"] == {"tombstones": 1}
    checked = shardrel("verify", "--staged", "--in-use")
    assert checked.keys() >= {"root", "verdict", "counts", "findings", "report", "roots"}
    assert [(one["root"], one["usedBy"]) for one in checked["roots"]] == [(root, ["alias:prod", "run:busy"])]
    again = shardrel("verify", root, "--staged")
    assert (again["roots"][0]["reports"], again["report"]) == ([], checked["roots"][0]["report"])
    advanced = shardrel("fence", "tombstones", "--advance-staged")
    assert (advanced["watermark"], run["permit"] in advanced["closedPermits"]) == (1, True)
    assert shardrel("run", "renew", "busy")["state"] == "open"
    assert shardrel("fence", "tombstones", "tombstones.jsonl")["closedPermits"] == []


def test_a_root_that_nobody_uses_is_rechecked_with_those_in_use(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    other = shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "3")["root"]
    unverified = shardrel("verify", other, "--in-use", status=1)
    assert [(one["root"], one["error"] and one["error"]["code"]) for one in unverified["roots"]] == [
        (other, "gate.not-verified"),
        (root, None),
    ]
    signed = shardrel("verify", other)["report"]
    checked = shardrel("verify", other, "--staged", "--in-use")
    assert (checked["root"], checked["report"]) == (other, signed)
    assert [(one["root"], one["usedBy"]) for one in checked["roots"]] == [(other, []), (root, ["alias:prod"])]


@pytest.mark.parametrize(
    "line",
    [
        ("fence", "tombstones"),
        ("fence", "tombstones", "tombstones.jsonl", "--advance-staged"),
        ("fence", "tombstones", "--advance-staged", "--stage"),
        ("verify",),
        ("verify", "--staged"),
    ],
)
def test_a_call_of_fence_or_verify_that_says_two_things_is_a_wrong_call(
    shardrel: Command, line: tuple[str, ...]
) -> None:
    shardrel("init")
    assert shardrel.code(*line, status=2) == "input.invalid"


def test_a_root_with_several_hits_is_not_revoked_for_them(shardrel: Command, root: str) -> None:
    Path("tombstones.jsonl").write_text('{"sequence": 1, "sampleId": "t1"}\n{"sequence": 2, "sampleId": "t2"}\n')
    shardrel("fence", "tombstones", "tombstones.jsonl")
    failed = shardrel("verify", root, "--fences-only", status=1)
    assert (failed["counts"]["tombstoneHits"], failed["revocation"]) == (2, None)


def test_gc(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    kept = shardrel("gc")
    assert kept.keys() >= {"deleted", "kept", "boundary"}
    assert (kept["deleted"], kept["boundary"]) == ([], 0)
    assert kept["kept"] == [{"kind": "root", "id": root, "pinnedBy": ["alias:prod"]}]
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    other = shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "3")["root"]
    planned = shardrel("gc", "--dry-run", "--keep-generations", "0", "--abandon", other)
    assert planned["dryRun"] is True
    done = shardrel("gc", "--keep-generations", "0", "--abandon", other)
    assert done["deleted"] == planned["deleted"] != []
    assert done["boundary"] > 0
    assert shardrel("status")["retention"] == {"boundary": done["boundary"], "sweep": None}
    assert shardrel("status")["pins"] == {root: ["alias:prod"]}
    assert shardrel("gc")["deleted"] == []
    assert shardrel("verify", root)["verdict"] == "PASSED"
    assert shardrel.code("gc", "--abandon", root) == "retention.pinned"
    assert shardrel.code("gc", "--abandon", "nobody") == "gate.no-such-publication"


def test_revoke(shardrel: Command, root: str) -> None:
    gone = shardrel("revoke", root, "--reason", "licence.withdrawn")
    assert gone.keys() >= {"root", "state", "closedPermits"}
    assert gone["state"] == "INVALID"
    assert shardrel("status")["candidates"] == {root: "INVALID"}
    assert shardrel.code("admit", root, "--alias", "prod") == "gate.root-invalid"


def test_a_failed_verification_is_handed_to_the_gate(shardrel: Command, root: str) -> None:
    shard = json.loads(Path(".shardrel/store", "objects/sha256", root[7:9], root[7:]).read_text())["shards"][0][
        "digest"
    ]
    path = Path(".shardrel/store", "objects/sha256", shard[7:9], shard[7:])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    failed = shardrel("verify", root, status=1)
    assert failed["verdict"] == "FAILED"
    assert "storage.digest-mismatch" in {finding["code"] for finding in failed["findings"]}
    assert failed["revocation"]["state"] == "INVALID"
    assert shardrel("status")["candidates"] == {root: "INVALID"}


def test_runs(shardrel: Command, root: str) -> None:
    shardrel("admit", root, "--alias", "prod")
    run = shardrel("run", "start", "--alias", "prod")
    assert run.keys() >= {"runId", "root", "generation", "permit", "state"}
    for verb in ("show", "renew", "finish"):
        assert shardrel("run", verb, run["runId"])["root"] == root
    assert shardrel.code("run", "renew", run["runId"]) == "gate.run-ended"
    other = shardrel("run", "start", "--alias", "prod", "--run-id", "other")
    assert shardrel("run", "cancel", other["runId"])["state"] == "cancelled"
    assert shardrel.code("run", "show", "nobody") == "gate.no-such-run"
    assert shardrel("checkpoint", "list", "other")["checkpoints"] == []
    assert shardrel.code("checkpoint", "preflight", "other") == "checkpoint.none"
    assert shardrel.code("checkpoint", "show", "other", "--generation", "3") == "checkpoint.none"


def test_pull(shardrel: Command, root: str) -> None:
    pulled = shardrel("pull", root, "--to", "here")
    assert pulled.keys() >= {"root", "shards", "bytes"}
    files = sorted(Path("here").glob("*.parquet"))
    assert (len(files), sum(file.stat().st_size for file in files)) == (pulled["shards"], pulled["bytes"])
    assert shardrel("pull", root, "--to", "train", "--split", "train")["records"] == len(TEXTS)
    assert shardrel.code("pull", root, "--to", "none", "--split", "none", status=2) == "input.invalid"


def test_a_folder_holds_what_was_pulled_and_nothing_of_an_earlier_pull(shardrel: Command) -> None:
    lines = [{"id": f"s{n}", "split": "few" if n == 0 else "many", "text": "one"} for n in range(30)]
    Path("splits.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shardrel("init")
    line = ("snapshot", "splits.jsonl", "--id-column", "id", "--split-column", "split")
    snapshot = shardrel(*line)["snapshot"]
    four, two = (
        str(shardrel("publish", snapshot, "--source", "splits.jsonl", "--shards", shards)["root"]) for shards in "42"
    )
    assert shardrel("pull", four, "--to", "here")["shards"] == 4
    assert shardrel("pull", four, "--to", "here", "--split", "few")["records"] == 1
    assert len(list(Path("here").glob("*.parquet"))) == 1
    assert shardrel.code("pull", two, "--to", "here", status=2) == "input.invalid"
    assert shardrel("pull", four, "--to", "here")["records"] == 30


def test_probe(shardrel: Command) -> None:
    probed = shardrel("probe")
    assert probed["verdict"] == "PASSED"
    assert all(check.keys() >= {"name", "ok", "required"} for check in probed["checks"])


@pytest.mark.parametrize("line", [("status",), ("log",), ("snapshot", "texts.jsonl"), ("run", "show", "r")])
def test_without_a_gate_verbs_say_so(shardrel: Command, line: tuple[str, ...]) -> None:
    assert shardrel.code(*line) == "gate.absent"


def test_without_the_key_of_a_role_verbs_say_so(shardrel: Command, root: str) -> None:
    Path(".shardrel/keys/admin.pem").unlink()
    assert shardrel.code("admit", root, "--alias", "prod", status=2) == "input.key"
    assert shardrel("init")["dataset"] == "default"
