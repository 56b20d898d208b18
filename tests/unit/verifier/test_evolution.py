"""Releases that name what their schema was compared with: honest, forged, unsigned, and against the policy."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from publisher.options import PublishOptions
from publisher.publish import World as PublisherWorld
from publisher.publish import publish
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, InvalidInputError, RefusedError
from shardrel.gate.attestations import attach, list_envelopes
from shardrel.gate.call import Call
from shardrel.gate.closure import root_closure
from shardrel.gate.policy import set_policy
from shardrel.gate.view import read_gate
from shardrel.records.evolution import EVOLUTION_PREDICATE, ChangeKind, Rename, SchemaEvolution
from shardrel.records.report import STATEMENT_PAYLOAD, Report
from shardrel.records.schema_changes import compare
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_record, put_record
from shardrel.trust.envelope import seal
from shardrel.trust.statement import statement
from tests.support.publishing import NO_FENCES, NOW, Publishing, records_table, write_source
from tests.support.release_builder import Built, codes

RENAME = (Rename(path=("label",), to="tag"),)


def evolved(table: Any) -> Any:
    """The same records with a wider column, a renamed one, and one more."""
    wide = table.set_column(
        table.schema.get_field_index("tokens"), "tokens", table["tokens"].cast(pa.list_(pa.int32()))
    )
    named = wide.rename_columns(["tag" if name == "label" else name for name in wide.column_names])
    return named.append_column("more", pa.array([None] * named.num_rows, pa.bool_()))


class Scene:
    """Two releases of one dataset, the second compared with the first."""

    def __init__(self, folder: Path) -> None:
        self.made = Publishing(store=MemoryStore())
        self.made.init()
        table = records_table(20)
        self.old = write_source(folder / "old.arrow", table)
        self.new = write_source(folder / "new.arrow", evolved(table))
        self.first = self.made.publish(self.made.snapshot(self.old), self.old).root
        self.snapshot = self.made.snapshot(self.new)

    def second(self, previous: str | None, renames: tuple[Rename, ...] = RENAME) -> str:
        options = PublishOptions(shards=2, previous=previous, renames=renames)
        world = PublisherWorld(signer=self.made.keys["publisher"], now=lambda: NOW, progress=lambda done, total: None)
        return publish(self.made.store, self.snapshot, [str(self.new)], options, fences=NO_FENCES, world=world).root

    def built(self, root: str) -> Built:
        return Built(self.made, root)

    def verified(self, root: str) -> Report:
        return self.built(root).verified(root).report

    def report(self, root: str) -> SchemaEvolution:
        named = self.made.release(root).schema_evolution
        assert named is not None
        return get_record(self.made.store, named, SchemaEvolution)

    def forge(self, claim: SchemaEvolution, *, signed: bool = True) -> Report:
        """The second release with another report, under the publisher's own key."""
        built = self.built(self.second(self.first))
        built.release = replace(built.release, schema_evolution=put_record(self.made.store, claim))
        root = built.seal()
        if signed:
            payload = statement(root, EVOLUTION_PREDICATE, claim, self.made.dataset)
            attach(self.made.store, root, seal(payload, STATEMENT_PAYLOAD, [self.made.keys["publisher"]]))
        return built.verified(root).report

    def allow(self, *kinds: ChangeKind) -> None:
        policy = replace(read_gate(self.made.store, self.made.dataset).policy, schema_changes=kinds)
        call = Call(signers=[self.made.keys["admin"]], recorded_at=NOW, operation_id=None, pending=None)
        set_policy(self.made.store, self.made.dataset, policy, call)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_release_names_what_changed_and_passes(scene: Scene) -> None:
    root = scene.second(scene.first)
    said = list_envelopes(scene.made.store, root)
    # Run again, it says nothing twice.
    assert scene.second(scene.first) == root
    assert list_envelopes(scene.made.store, root) == said
    report = scene.report(root)
    assert [(change.kind, change.path) for change in report.changes] == [
        ("renamed", ("tag",)),
        ("widened", ("tokens", "element")),
        ("added", ("more",)),
    ]
    assert report.previous == scene.first
    assert scene.verified(root).findings == ()


def test_a_release_that_names_none_is_another_root_without_a_report(scene: Scene) -> None:
    root = scene.second(None, ())
    assert scene.made.release(root).schema_evolution is None
    assert root != scene.second(scene.first)
    assert scene.verified(root).verdict == "PASSED"


def test_a_report_that_leaves_something_out_is_found(scene: Scene) -> None:
    honest = scene.report(scene.second(scene.first))
    assert codes(scene.forge(replace(honest, changes=honest.changes[1:]))) == {ErrorCode.EVOLUTION_MISMATCH}


@pytest.mark.parametrize("field", ["previous_schema", "record_schema"])
def test_a_report_about_other_schemas_is_found(scene: Scene, field: str) -> None:
    honest = scene.report(scene.second(scene.first))
    forged = scene.forge(replace(honest, **{field: digest_of(b"another")}))
    assert codes(forged) == {ErrorCode.EVOLUTION_MISMATCH}


def test_renames_that_fit_nowhere_are_found(scene: Scene) -> None:
    honest = scene.report(scene.second(scene.first))
    forged = scene.forge(replace(honest, renames=(*honest.renames, Rename(path=("text",), to="none"))))
    assert codes(forged) == {ErrorCode.EVOLUTION_MISMATCH}


def test_a_previous_release_that_is_absent_is_found(scene: Scene) -> None:
    honest = scene.report(scene.second(scene.first))
    assert codes(scene.forge(replace(honest, previous=digest_of(b"none")))) == {ErrorCode.STORAGE_ABSENT}


def test_a_previous_release_whose_schema_cannot_be_is_found(scene: Scene) -> None:
    honest, first = scene.report(scene.second(scene.first)), scene.made.release(scene.first)
    schema = scene.built(scene.first).schema
    twice = put_record(scene.made.store, replace(schema, fields=(*schema.fields, schema.fields[0])))
    unsound = replace(first, record_schema=twice.digest, objects=replace(first.objects, record_schema=twice))
    previous = put_record(scene.made.store, unsound).digest
    assert codes(scene.forge(replace(honest, previous=previous))) == {ErrorCode.RECORD_SCHEMA}


def test_a_previous_release_of_another_dataset_is_found(scene: Scene) -> None:
    honest, first = scene.report(scene.second(scene.first)), scene.made.release(scene.first)
    foreign = put_record(scene.made.store, replace(first, dataset="another")).digest
    assert codes(scene.forge(replace(honest, previous=foreign))) == {ErrorCode.ROOT_DATASET}


def test_a_report_that_no_publisher_signed_for_this_root_is_found(scene: Scene) -> None:
    built, honest = scene.built(scene.second(scene.first)), scene.report(scene.second(scene.first))
    plain = compare(scene.built(scene.first).schema, built.schema)
    unsigned = scene.forge(replace(honest, renames=(), changes=tuple(plain)), signed=False)
    assert codes(unsigned) == {ErrorCode.EVOLUTION_NOT_ATTESTED}


def test_the_policy_is_asked_by_publisher_and_verifier(scene: Scene) -> None:
    root = scene.second(scene.first)
    scene.allow("added")
    assert codes(scene.verified(root)) == {ErrorCode.EVOLUTION_CHANGE}
    with pytest.raises(RefusedError) as caught:
        scene.second(scene.first)
    assert caught.value.code == ErrorCode.EVOLUTION_CHANGE
    scene.allow("added", "renamed", "widened", "changed")
    assert scene.verified(root).verdict == "PASSED"


def test_a_previous_root_has_to_be_one_of_this_store_and_renames_need_one(scene: Scene) -> None:
    with pytest.raises(RefusedError) as caught:
        scene.second(digest_of(b"none"))
    assert caught.value.code == ErrorCode.STORAGE_ABSENT
    assert read_gate(scene.made.store, scene.made.dataset).body.publications == {}
    with pytest.raises(InvalidInputError) as wrong:
        scene.second(None)
    assert wrong.value.code == ErrorCode.INPUT_RENAME


def test_retention_keeps_what_a_verifier_needs_to_compare_again(scene: Scene) -> None:
    named = root_closure(scene.made.store, scene.second(scene.first))
    first = scene.made.release(scene.first)
    assert {scene.first, first.record_schema} <= named.keys()
    assert first.shards[0].digest not in named
