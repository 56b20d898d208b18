"""The export of a gate's history: it grows, others can read it, and whatever is put in the history's place shows."""

import base64
import dataclasses
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key
from msgspec.structs import replace

from shardrel.canonical import json
from shardrel.errors import ErrorCode, InvalidInputError, ShardrelError, TrustError
from shardrel.gate.anchor import Anchored, extend, must_extend, origin_of
from shardrel.gate.facts import Evidence
from shardrel.gate.history import read_history
from shardrel.gate.policy import set_policy
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.register import submit
from shardrel.gate.view import read_gate
from shardrel.records.policy import Policy, Role
from shardrel.records.transition import Init
from shardrel.store.layout import gate_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import put_record, unversioned
from tests.support import gates


def moves(store: MemoryStore, count: int, first: int = 0) -> None:
    """So many pairs of transitions."""
    for n in range(first, first + count):
        begin_publication(store, gates.DATASET, f"p{n}", gates.SNAPSHOT, gates.call("publisher"))
        end_publication(store, gates.DATASET, f"p{n}", None, gates.call("publisher"))


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    gates.new_gate(store)
    moves(store, 2)
    return store


def export(store: MemoryStore, kept: str | None = None, *signers: str) -> Anchored:
    view = read_gate(store, gates.DATASET)
    keys = [gates.key(name) for name in signers or ("admin",)]
    return extend(store, view, read_history(store, view), kept, keys)


def against(store: MemoryStore, kept: str) -> Anchored:
    view = read_gate(store, gates.DATASET)
    return must_extend(store, view, read_history(store, view), kept)


def refused(store: MemoryStore, kept: str) -> ErrorCode:
    with pytest.raises(ShardrelError) as caught:
        against(store, kept)
    return caught.value.code


def put_back(store: MemoryStore, data: bytes) -> None:
    """What a holder of raw write credentials can do."""
    now = store.read(gate_key(gates.DATASET), max_bytes=json.MAX_RECORD_BYTES)
    assert now is not None
    store.swap(gate_key(gates.DATASET), data, now.token)


def state_of(store: MemoryStore) -> bytes:
    stored = store.read(gate_key(gates.DATASET), max_bytes=json.MAX_RECORD_BYTES)
    assert stored is not None
    return stored.data


def with_governors(*names: str, threshold: int = 1) -> Policy:
    policy = gates.a_policy()
    role = Role(keys=gates.publics(*names), threshold=threshold)
    return replace(policy, roles=replace(policy.roles, governor=role))


def test_an_export_grows_and_what_it_held_stays(store: MemoryStore) -> None:
    first = export(store)
    assert (first.size, first.checkpoints, first.added) == (5, 1, True)
    assert export(store, first.text) == dataclasses.replace(first, added=False)
    moves(store, 3, first=2)
    assert against(store, first.text).size == 5
    second = export(store, first.text)
    assert second.text.startswith(first.text)
    assert (second.size, second.checkpoints) == (11, 2)
    assert against(store, second.text).size == 11


def test_another_reader_comes_to_the_same(store: MemoryStore) -> None:
    """A parser and a check of signatures and roots of its own, by the published texts."""
    first = export(store)
    moves(store, 1, first=2)
    text = export(store, first.text).text
    view = read_gate(store, gates.DATASET)
    entries = [link.envelope for link in read_history(store, view)]
    public = load_der_public_key(bytes.fromhex(gates.key("admin").public.public))
    lines = text.split("\n")
    sizes = []
    while lines != [""]:
        assert lines.pop(0) == f"old {sizes[-1] if sizes else 0}"
        while lines.pop(0):
            pass
        note = [lines.pop(0), lines.pop(0), lines.pop(0)]
        assert lines.pop(0) == ""
        dash, name, signature = lines.pop(0).split(" ")
        origin, size, root = note
        assert (dash, name, origin) == ("—", origin, f"shardrel.dev/gate/corpus/{view.body.gate_id}")
        raw = base64.b64decode(signature)
        public_bytes = public.public_bytes_raw()  # type: ignore[union-attr]
        assert raw[:4] == sha256(f"{origin}\n".encode() + b"\x01" + public_bytes).digest()[:4]
        public.verify(raw[4:], ("\n".join(note) + "\n").encode())  # type: ignore[union-attr,call-arg]
        assert base64.b64decode(root) == merkle(entries[: int(size)])
        sizes.append(int(size))
    assert sizes == [5, 7]


def merkle(entries: list[bytes]) -> bytes:
    if len(entries) == 1:
        return sha256(b"\x00" + entries[0]).digest()
    half = 1 << (len(entries) - 1).bit_length() - 1
    return sha256(b"\x01" + merkle(entries[:half]) + merkle(entries[half:])).digest()


def test_a_state_that_is_put_back_is_found_out(store: MemoryStore) -> None:
    old = state_of(store)
    moves(store, 1, first=2)
    kept = export(store).text
    put_back(store, old)
    assert refused(store, kept) == ErrorCode.GATE_HISTORY
    with pytest.raises(ShardrelError) as caught:
        export(store, kept)
    assert caught.value.code == ErrorCode.GATE_HISTORY


def test_a_history_that_goes_on_from_a_state_that_was_put_back_is_found_out(store: MemoryStore) -> None:
    old = state_of(store)
    moves(store, 1, first=2)
    kept = export(store).text
    put_back(store, old)
    moves(store, 4, first=7)
    assert refused(store, kept) == ErrorCode.GATE_HISTORY


def test_another_gate_of_the_same_name_and_id_is_found_out(store: MemoryStore) -> None:
    kept = export(store).text
    gate_id = read_gate(store, gates.DATASET).body.gate_id
    thief = gates.key("thief")
    policy = with_governors("thief")
    other = MemoryStore()
    begin = Init(gate_id=gate_id, dataset=gates.DATASET, policy=unversioned(put_record(other, policy)))
    evidence = Evidence(signers=frozenset(), policy=policy)
    submit(
        other, gates.DATASET, begin, operation_id="x", signers=[thief], gather=lambda _: evidence,
        recorded_at=gates.NOW,
    )  # fmt: skip
    moves(other, 2)
    view = read_gate(other, gates.DATASET)
    assert origin_of(view) == origin_of(read_gate(store, gates.DATASET))
    assert refused(other, kept) == ErrorCode.GATE_HISTORY


def test_an_export_of_another_gate_is_refused(store: MemoryStore) -> None:
    other = MemoryStore()
    gates.new_gate(other)
    assert refused(other, export(store).text) == ErrorCode.GATE_WRONG


def test_checkpoints_count_by_the_governors_of_their_time(store: MemoryStore) -> None:
    first = export(store).text
    set_policy(store, gates.DATASET, with_governors("g1", "g2", threshold=2), gates.call("admin", "g1", "g2"))
    assert against(store, first).size == 5
    for signers in (("admin",), ("g1",), ("g1", "admin")):
        with pytest.raises(TrustError) as caught:
            export(store, first, *signers)
        assert caught.value.code == ErrorCode.TRUST_THRESHOLD
    second = export(store, first, "g1", "g2").text
    assert against(store, second).checkpoints == 2
    # One line fewer: the new policy asks for two.
    assert refused(store, second.rpartition("\u2014")[0]) == ErrorCode.TRUST_SIGNATURE


def test_a_checkpoint_that_nobody_may_sign_so_is_refused(store: MemoryStore) -> None:
    view = read_gate(store, gates.DATASET)
    stranger = with_governors("stranger")
    lying = dataclasses.replace(view, policy=stranger)
    forged = extend(store, lying, read_history(store, view), None, [gates.key("stranger")])
    assert refused(store, forged.text) == ErrorCode.TRUST_SIGNATURE


def test_an_export_that_was_tampered_with_is_refused(store: MemoryStore) -> None:
    first = export(store).text
    moves(store, 1, first=2)
    text = export(store, first).text
    second = text.removeprefix(first)
    proof = second.split("\n")[1]
    other = base64.b64encode(b"o" * 32).decode()
    assert refused(store, text.replace(proof, other)) == ErrorCode.GATE_HISTORY
    assert refused(store, second) == ErrorCode.GATE_HISTORY
    assert refused(store, first + first) == ErrorCode.GATE_HISTORY
    assert refused(store, text.replace("old 5", "old 4")) == ErrorCode.GATE_HISTORY
    for nothing in ("", "{", "old 0\n"):
        with pytest.raises(InvalidInputError):
            against(store, nothing)


def test_no_changed_character_goes_unnoticed(store: MemoryStore) -> None:
    first = export(store).text
    moves(store, 1, first=2)
    text = export(store, first).text
    view = read_gate(store, gates.DATASET)
    links = read_history(store, view)
    for at in range(0, len(text), 2):
        for changed in (text[:at] + text[at + 1 :], text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]):
            with pytest.raises(ShardrelError):
                must_extend(store, view, links, changed)
