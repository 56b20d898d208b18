"""A source that is not what its snapshot declares: what is told of it, and what becomes of the publication."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.misfits import NAMED
from publisher.options import PublishOptions
from shardrel.canonical import json
from shardrel.digest import digest_of
from shardrel.errors import (
    ErrorCode,
    IntegrityError,
    InvalidInputError,
    RefusedError,
    ShardrelError,
    UnavailableError,
)
from shardrel.gate.call import Call
from shardrel.gate.publication import begin_publication, end_publication
from shardrel.gate.view import read_gate
from shardrel.records.snapshot import Columns, Snapshot
from shardrel.store.layout import object_key
from shardrel.store.memory import MemoryStore
from shardrel.store.objects import get_by_digest
from tests.support.encrypted import a_key, encrypted_snapshot, publish_with
from tests.support.publishing import NOW, Publishing, records_table, write_source

OPTIONS = PublishOptions(shards=2)


@pytest.fixture
def dataset() -> Publishing:
    publishing = Publishing(store=MemoryStore())
    publishing.init()
    return publishing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, in batches of 30 records."""
    write_source(tmp_path / "a.arrow", records_table(100), batch_records=30)
    write_source(tmp_path / "b.arrow", records_table(100, first=100), batch_records=30)
    return tmp_path


def refusal(dataset: Publishing, snapshot: str, *sources: Path) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        dataset.publish(snapshot, *sources, options=OPTIONS)
    assert caught.value.code == ErrorCode.SOURCE_MISMATCH
    return caught.value


def with_value(table: Any, name: str, row: int, value: Any) -> Any:
    values = table[name].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(name), name, pa.array(values, table.schema.field(name).type))


def rewritten(folder: Path, table: Any) -> None:
    write_source(folder / "b.arrow", table, batch_records=30)


@pytest.mark.parametrize(("name", "value"), [("score", -1.0), ("split", "other"), ("version", 9), ("text", None)])
def test_a_changed_record_is_named_by_file_and_row(dataset: Publishing, folder: Path, name: str, value: Any) -> None:
    snapshot = dataset.snapshot(folder)
    rewritten(folder, with_value(records_table(100, first=100), name, 65, value))
    context = refusal(dataset, snapshot, folder).context
    assert (context["missing"], context["extra"], context["changed"]) == (0, 0, 1)
    assert context["changedRecords"] == [f"{folder / 'b.arrow'}#65"]
    assert context["extraRecords"] == context["missingSamples"] == []


def test_an_undeclared_record_is_named_by_its_place_and_the_missing_one_by_its_digest(
    dataset: Publishing, folder: Path
) -> None:
    snapshot = dataset.snapshot(folder)
    table = records_table(100, first=100)
    lost = table["id"][3].as_py()
    rewritten(folder, with_value(table, "id", 3, "a name that nobody shall read"))
    error = refusal(dataset, snapshot, folder)
    assert error.context["extraRecords"] == [f"{folder / 'b.arrow'}#3"]
    assert error.context["missingSamples"] == [digest_of(lost.encode())]
    assert "nobody shall read" not in f"{error} {error.context}"


def test_a_record_that_is_there_twice_is_named_in_both_places(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder)
    rewritten(folder, pa.concat_tables([records_table(100, first=100), records_table(1, first=50)]))
    context = refusal(dataset, snapshot, folder).context
    assert context["extra"] == 1
    assert context["extraRecords"] == [f"{folder / 'a.arrow'}#50", f"{folder / 'b.arrow'}#100"]


def test_rows_by_rule_are_named_like_their_ids(dataset: Publishing, folder: Path) -> None:
    by_rule = Columns(id=None, source=None, version="version", split="split")
    snapshot = dataset.snapshot(folder, columns=by_rule)
    rewritten(folder, with_value(records_table(100, first=100), "score", 7, -1.0))
    context = refusal(dataset, snapshot, folder).context
    assert context["changedRecords"] == [f"{folder / 'b.arrow'}#7"]


def test_all_are_counted_and_a_few_are_named(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder)
    rewritten(folder, records_table(60, first=5000))
    context = refusal(dataset, snapshot, folder).context
    assert (context["missing"], context["extra"]) == (100, 60)
    places, samples = context["extraRecords"], context["missingSamples"]
    assert isinstance(places, list)
    assert isinstance(samples, list)
    assert len(set(places)) == len(set(samples)) == NAMED


def test_what_an_encrypted_snapshot_misses_is_counted_alone(dataset: Publishing, folder: Path) -> None:
    key = a_key()
    snapshot = encrypted_snapshot(dataset, folder / "b.arrow", key)
    rewritten(folder, with_value(records_table(100, first=100).slice(1), "score", 5, -1.0))
    with pytest.raises(RefusedError) as caught:
        publish_with(dataset, snapshot, folder / "b.arrow", None, [key])
    context = caught.value.context
    assert (context["missing"], context["missingSamples"]) == (1, [])
    assert context["changedRecords"] == [f"{folder / 'b.arrow'}#5"]


def test_columns_that_are_not_the_declared_ones_are_named(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder / "a.arrow")
    table = records_table(100)
    score = table.column_names.index("score")
    write_source(folder / "a.arrow", table.set_column(score, "score", table["score"].cast(pa.float32())))
    assert refusal(dataset, snapshot, folder / "a.arrow").context["columns"] == ["score"]
    write_source(folder / "a.arrow", table.rename_columns([n if n != "label" else "mark" for n in table.column_names]))
    assert refusal(dataset, snapshot, folder / "a.arrow").context["columns"] == ["label", "mark"]


def begun(dataset: Publishing, snapshot: str) -> int:
    """The pin of a run that was interrupted."""
    return begin_publication(
        dataset.store, dataset.dataset, OPTIONS.publication(snapshot), snapshot, by_publisher(dataset)
    ).sequence


def by_publisher(dataset: Publishing) -> Call:
    return Call(signers=[dataset.keys["publisher"]], recorded_at=NOW, operation_id=None, pending=None)


def open_publications(dataset: Publishing) -> set[str]:
    return set(read_gate(dataset.store, dataset.dataset).body.publications)


def test_a_refused_source_ends_the_publication_whoever_began_it(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder)
    begun(dataset, snapshot)
    refusal(dataset, snapshot, folder / "a.arrow")
    assert open_publications(dataset) == set()
    assert dataset.publish(snapshot, folder, options=OPTIONS).state == "STAGED"


def test_a_run_whose_publication_another_one_lost_is_refused_and_goes_on_when_run_again(
    dataset: Publishing, folder: Path
) -> None:
    snapshot = dataset.snapshot(folder)
    pin = begun(dataset, snapshot)
    refusal(dataset, snapshot, folder / "a.arrow")
    root = digest_of(b"what the other process wrote")
    name = OPTIONS.publication(snapshot)
    with pytest.raises(ShardrelError) as caught:
        end_publication(dataset.store, dataset.dataset, name, root, by_publisher(dataset), pin=pin)
    assert caught.value.code == ErrorCode.GATE_NO_PUBLICATION
    assert dataset.publish(snapshot, folder, options=OPTIONS).state == "STAGED"


def test_a_store_that_does_not_answer_leaves_the_pin_to_the_run_that_goes_on(
    dataset: Publishing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = dataset.snapshot(folder)
    create = dataset.store.create

    def silent(key: Any, data: Any) -> Any:
        if bytes(data[:4]) == b"PAR1":
            raise UnavailableError(ErrorCode.STORE_UNAVAILABLE, "no answer")
        return create(key, data)

    with monkeypatch.context() as patched:
        patched.setattr(dataset.store, "create", silent)
        with pytest.raises(UnavailableError):
            dataset.publish(snapshot, folder, options=OPTIONS)
    assert open_publications(dataset) == {OPTIONS.publication(snapshot)}
    assert dataset.publish(snapshot, folder, options=OPTIONS).state == "STAGED"
    assert open_publications(dataset) == set()


def test_a_snapshot_that_cannot_be_read_any_more_ends_the_publication(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder)
    part = json.decode(get_by_digest(dataset.store, snapshot), Snapshot).parts[0].object
    key = object_key(part.digest)
    stored = dataset.store.read(key, max_bytes=part.size)
    assert stored is not None
    dataset.store.swap(key, stored.data[:-1] + b"0", stored.token)
    # Parts are read for the sake of a source that is not exactly what was declared.
    rewritten(folder, with_value(records_table(100, first=100), "score", 3, -1.0))
    with pytest.raises(IntegrityError) as caught:
        dataset.publish(snapshot, folder, options=OPTIONS)
    assert caught.value.code == ErrorCode.STORAGE_DIGEST
    assert open_publications(dataset) == set()


def test_records_that_went_to_files_are_compared_before_they_are_moved_about(dataset: Publishing, folder: Path) -> None:
    snapshot = dataset.snapshot(folder)
    rewritten(folder, with_value(records_table(100, first=100), "score", 65, -1.0))
    with pytest.raises(RefusedError) as caught:
        dataset.publish(snapshot, folder, options=PublishOptions(shards=2, memory_bytes=0))
    assert caught.value.context["changedRecords"] == [f"{folder / 'b.arrow'}#65"]


@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
@pytest.mark.parametrize("step", ["shards.encode_shard", "write.column_encodings"])
@pytest.mark.parametrize("same", [True, False])
def test_what_is_wrong_with_the_source_is_said_before_what_is_wrong_with_the_plan_or_a_shard(
    dataset: Publishing, folder: Path, monkeypatch: pytest.MonkeyPatch, same: bool, step: str, memory_bytes: int
) -> None:
    """Both are made while the source is still being compared."""

    def refused(*_: Any, **__: Any) -> None:
        raise InvalidInputError(ErrorCode.INPUT_INVALID, "too large")

    monkeypatch.setattr(f"publisher.{step}", refused)
    snapshot = dataset.snapshot(folder)
    if not same:
        rewritten(folder, with_value(records_table(100, first=100), "score", 65, -1.0))
    with pytest.raises(ShardrelError) as caught:
        dataset.publish(snapshot, folder, options=PublishOptions(shards=2, memory_bytes=memory_bytes))
    assert caught.value.code == (ErrorCode.INPUT_INVALID if same else ErrorCode.SOURCE_MISMATCH)


def test_an_interrupt_while_the_first_shard_is_made_is_no_refusal(
    dataset: Publishing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pin stays for the run that goes on, whatever the source is."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("publisher.shards.encode_shard", interrupted)
    snapshot = dataset.snapshot(folder)
    rewritten(folder, with_value(records_table(100, first=100), "score", 65, -1.0))
    with pytest.raises(KeyboardInterrupt):
        dataset.publish(snapshot, folder, options=OPTIONS)
    assert len(read_gate(dataset.store, dataset.dataset).body.publications) == 1


def test_no_wrapped_key_is_stored_for_a_wrong_source(
    dataset: Publishing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are stored while shards are made, so these are made once the source is approved."""
    key = a_key()
    snapshot = encrypted_snapshot(dataset, folder / "b.arrow", key)
    rewritten(folder, with_value(records_table(100, first=100), "score", 65, -1.0))
    begun: list[str] = []
    monkeypatch.setattr("publisher.encryption.Encrypting.index_key", lambda *_: begun.append("index"))
    monkeypatch.setattr("publisher.encryption.Encrypting.shard", lambda *_: begun.append("shard"))
    with pytest.raises(RefusedError) as caught:
        publish_with(dataset, snapshot, folder / "b.arrow", key, [key])
    assert caught.value.code == ErrorCode.SOURCE_MISMATCH
    assert begun == []


def test_a_source_is_compared_once(dataset: Publishing, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr("publisher.publish._is_all_of_it", lambda *_: looked.append(1) or False)
    monkeypatch.setattr("publisher.publish._compare", lambda *_: looked.append(2))
    dataset.publish(dataset.snapshot(folder), folder, options=OPTIONS)
    assert looked == [1, 2]
