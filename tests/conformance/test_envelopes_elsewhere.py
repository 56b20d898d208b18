"""Our envelopes as other tools read them: securesystemslib, in-toto, in-toto-attestation, and the page's own Python."""

import base64
import contextlib
import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key
from google.protobuf import json_format
from in_toto.exceptions import SignatureVerificationError
from in_toto.models.metadata import Metadata
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.predicates.vsa.v1.vsa_pb2 import VerificationSummary
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from shardrel.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trust.md"
REPORT = "https://shardrel.dev/verification-report/v1"
APPROVAL = "https://shardrel.dev/approval/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
SUMMARY = "https://slsa.dev/verification_summary/v1"
SIGNERS = {PROVENANCE: "publisher", REPORT: "verifier", SUMMARY: "verifier", APPROVAL: "approver"}


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release made by the command line, its keys and everything that was signed."""

    folder: Path
    root: str
    keys: dict[str, dict[str, str]]
    attestations: dict[str, bytes]
    transitions: list[bytes]


def run(folder: Path, *line: str) -> dict[str, Any]:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main([*line, "--store", str(folder / "store"), "--keys", str(folder / "keys"), "--json"]) == 0
    answer: dict[str, Any] = json.loads(shown.getvalue())
    return answer


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("elsewhere")
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps({"id": f"t{n}", "text": "é"}) + "\n" for n in range(9)))
    # Both schemes: two roles by ECDSA, the others by Ed25519.
    run(folder, "keys", "make", "verifier", "admin", "--scheme", "ecdsa-sha2-nistp256")
    run(folder, "init")
    snapshot = run(folder, "snapshot", str(texts), "--id-column", "id")["snapshot"]
    root = str(run(folder, "publish", snapshot, "--source", str(texts), "--shards", "2")["root"])
    run(folder, "verify", root)
    run(folder, "approve", root)
    run(folder, "admit", root, "--alias", "prod")
    attached = {}
    for path in (folder / "store" / "attestations" / root[7:]).iterdir():
        statement = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
        attached[statement["predicateType"]] = path.read_bytes()
    transitions = [
        (folder / "store" / "objects" / "sha256" / digest[7:9] / digest[7:]).read_bytes()
        for digest in (entry["digest"] for entry in run(folder, "log")["transitions"])
    ]
    keys = {key["name"]: key for key in run(folder, "keys", "show")["keys"]}
    return Release(folder=folder, root=root, keys=keys, attestations=attached, transitions=transitions)


def theirs(key: dict[str, str]) -> SSlibKey:
    return SSlibKey.from_crypto(load_der_public_key(bytes.fromhex(key["public"])), key["keyId"])


def test_everything_was_signed_that_is_read_here(release: Release) -> None:
    assert release.attestations.keys() == SIGNERS.keys()
    kinds = [json.loads(base64.b64decode(json.loads(one)["payload"]))["request"]["kind"] for one in release.transitions]
    assert kinds == ["init", "begin-publication", "end-publication", "admit"]


def test_securesystemslib_verifies_every_envelope_by_its_key_and_no_other(release: Release) -> None:
    transitions = zip(release.transitions, ["admin", "publisher", "publisher", "admin"], strict=True)
    signed = [*((release.attestations[kind], name) for kind, name in SIGNERS.items()), *transitions]
    for data, name in signed:
        envelope = Envelope.from_dict(json.loads(data))
        for other, key in release.keys.items():
            if other == name:
                assert set(envelope.verify([theirs(key)], 1)) == {key["keyId"]}
            else:
                with pytest.raises(VerificationError):
                    envelope.verify([theirs(key)], 1)
        envelope.payload += b" "
        with pytest.raises(VerificationError):
            envelope.verify([theirs(release.keys[name])], 1)


@pytest.mark.parametrize("kind", SIGNERS)
def test_in_toto_verifies_the_signature(release: Release, kind: str) -> None:
    metadata = Metadata.from_dict(json.loads(release.attestations[kind]))
    for name, key in release.keys.items():
        as_dict = {**theirs(key).to_dict(), "keyid": key["keyId"]}
        if name == SIGNERS[kind]:
            metadata.verify_signature(as_dict)
        else:
            with pytest.raises(SignatureVerificationError):
                metadata.verify_signature(as_dict)


@pytest.mark.parametrize("kind", SIGNERS)
def test_in_toto_reads_the_statement(release: Release, kind: str) -> None:
    payload = json.loads(Envelope.from_dict(json.loads(release.attestations[kind])).payload)
    statement = Statement.copy_from_pb(json_format.ParseDict(payload, StatementMessage()))
    statement.validate()
    assert statement.pb.predicate_type == kind
    assert [dict(subject.digest) for subject in statement.pb.subject] == [{"sha256": release.root[7:]}]


def test_the_provenance_has_the_fields_of_slsa_and_no_others(release: Release) -> None:
    payload = json.loads(Envelope.from_dict(json.loads(release.attestations[PROVENANCE])).payload)
    read = json_format.ParseDict(payload["predicate"], Provenance())
    assert read.build_definition.build_type == "https://shardrel.dev/publish/v1"
    assert read.build_definition.resolved_dependencies
    assert read.run_details.builder.id


def test_the_summary_has_the_fields_of_slsa_and_no_others(release: Release) -> None:
    payload = json.loads(Envelope.from_dict(json.loads(release.attestations[SUMMARY])).payload)
    # The package's message has one string where SLSA has a list.
    assert payload["predicate"].pop("verifiedLevels") == ["SLSA_BUILD_LEVEL_1"]
    read = json_format.ParseDict(payload["predicate"], VerificationSummary())
    assert (read.verification_result, read.resource_uri) == ("PASSED", "shardrel:default")
    assert read.input_attestations[0].digest["sha256"]
    assert read.policy.digest["sha256"]


# The Python of docs/trust.md.


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    found = {}
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        [name] = re.findall(r'^"""python (\w+)\.py ', text)
        found[name] = folder / f"{name}.py"
        found[name].write_text(text)
    return found


def told(program: Path, *arguments: str) -> tuple[int, str]:
    """Run it in an interpreter that knows nothing of this folder."""
    command = [sys.executable, "-I", "-W", "error::ResourceWarning", str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent, check=False)
    return done.returncode, done.stdout.strip() or done.stderr.strip()


def test_the_programs_of_the_page_use_what_they_say(programs: dict[str, Path]) -> None:
    imports = {
        name: {line.split()[1].split(".")[0] for line in re.findall(r"^(?:import|from) .+$", path.read_text(), re.M)}
        for name, path in programs.items()
    }
    assert imports["check_envelope"] - sys.stdlib_module_names == {"cryptography"}
    assert imports["check_export"] <= sys.stdlib_module_names


def test_the_page_checks_an_envelope(release: Release, programs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "envelope.json"
    program, verifier = programs["check_envelope"], release.keys["verifier"]["public"]
    path.write_bytes(release.attestations[REPORT])
    assert told(program, str(path), verifier, release.root) == (0, REPORT)
    assert told(program, str(path), release.keys["publisher"]["public"])[0] == 1
    assert told(program, str(path), verifier, "sha256:" + "0" * 64) == (1, "it is about another root")
    path.write_bytes(release.transitions[2])
    assert told(program, str(path), release.keys["publisher"]["public"]) == (0, "end-publication")


def test_the_page_checks_an_export(release: Release, programs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "kept"
    run(release.folder, "log", "--export", str(path))
    for number in range(3):
        run(release.folder, "run", "start", "--alias", "prod", "--run-id", f"r{number}")
        run(release.folder, "log", "--export", str(path))
    text = path.read_text()
    assert told(programs["check_export"], str(path))[1].endswith(": 4 checkpoints, 7 transitions")
    proof = re.findall(r"^old [1-9]\n(.+)\n", text, flags=re.MULTILINE)[-1]
    for tampered in (
        text.replace(proof, base64.b64encode(b"o" * 32).decode()),
        text.partition("old 4")[2],
        text + text,
    ):
        path.write_text("old 4" * (not tampered.startswith("old")) + tampered)
        assert told(programs["check_export"], str(path))[0] == 1
