"""Marked content goes through every path, good and bad, and none of it comes out: not in what commands print, in
reports, proofs, pages, logs, figures or errors, and not in any record of the store but the shards."""

import json
import logging
import urllib.request
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from shardrel.checkpoint.group import SoloGroup
from shardrel.cli.main import main
from shardrel.data.cache import ShardCache
from shardrel.data.packing import PackPlan
from shardrel.digest import digest_of
from shardrel.drills.ranks import run_ranks
from shardrel.errors import ShardrelError
from shardrel.records.checkpoint import Cut
from shardrel.store.local import LocalStore
from shardrel.train.admission import join
from shardrel.train.loader import dataset, loader, packed
from shardrel.train.pin import PinnedRun, TrainPlan
from shardrel.train.session import checkpoint, resume, steps
from shardrel.train.watch import Watch
from shardrel.trust.keyring import load

MARK = "quetzalcoatl"
WORDS = [f"{MARK} {number} drank from the well number {number} at night" for number in range(24)]
KEY = f"nested-{MARK}"
GROUP = SoloGroup()


class Listener:
    """Everything that was ever printed, logged, served or written beside the shards."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.heard: list[str] = []

    def run(self, *line: str, json_too: bool = True) -> int:
        """A command line, for people and, where that changes nothing, for scripts."""
        status = main(list(line))
        if json_too:
            main([*line, "--json"])
        shown = self._capsys.readouterr()
        self.heard += [shown.out, shown.err]
        return status

    def answer(self, *line: str) -> dict[str, Any]:
        """What a command says to scripts; it has to succeed."""
        self._capsys.readouterr()
        status = main([*line, "--json"])
        shown = self._capsys.readouterr()
        self.heard += [shown.out, shown.err]
        assert status == 0, shown
        return dict(json.loads(shown.out))

    def fails(self, action: Callable[[], object]) -> None:
        """An error of ours, with all that it carries."""
        with pytest.raises(ShardrelError) as err:
            action()
        self.heard += [str(err.value), repr(err.value), repr(dict(err.value.context)), repr(err.value.__cause__)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"t{n}", "text": text, "n": n}) for n, text in enumerate(WORDS)]
    Path("texts.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def listener(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[Listener]:
    caplog.set_level(logging.DEBUG)
    listening = Listener(capsys)
    yield listening
    listening.heard += [record.getMessage() for record in caplog.records]
    leaks = [text for text in listening.heard if MARK in text.lower()]
    assert len("".join(listening.heard)) > 20_000  # it did listen
    assert not leaks, leaks[0][:2000]


def publish_all(listener: Listener) -> str:
    """From sources to an admitted alias."""
    listener.answer("init")
    snapshot = listener.answer("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    root = str(listener.answer("publish", snapshot, "--source", "texts.jsonl", "--shards", "3")["root"])
    listener.answer("verify", root)
    listener.answer("approve", root)
    listener.answer("admit", root, "--alias", "prod")
    return root


def bad_sources(listener: Listener, root: str) -> None:
    """Files that are broken at, or around, marked content."""
    first = json.dumps({"id": "a", "text": WORDS[0]})
    for name, data in {
        "cut.jsonl": f'{first}\n{{"id":"b","text":"{WORDS[1]}'.encode(),
        "utf8.jsonl": first.encode() + b'\n{"id":"b","text":"' + MARK.encode() + b'\xff"}\n',
        "twice.jsonl": f"{first}\n{first}\n".encode(),
        "null.jsonl": f'{first}\n{{"id":null,"text":"{WORDS[1]}"}}\n'.encode(),
        "type.jsonl": f'{first}\n{{"id":"b","text":{{"{KEY}":1}}}}\n'.encode(),
        "list.jsonl": f'["{WORDS[0]}"]\n'.encode(),
        "plain.parquet": f"PAR1{WORDS[0]}PAR1".encode(),
    }.items():
        Path(name).write_bytes(data)
        assert listener.run("snapshot", name, "--id-column", "id") != 0, name
    changed = [json.dumps({"id": f"t{n}", "text": f"{text}!", "n": n}) for n, text in enumerate(WORDS)]
    Path("changed.jsonl").write_text("\n".join(changed) + "\n")
    snapshot = listener.answer("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    assert listener.run("publish", snapshot, "--source", "changed.jsonl", "--shards", "3") != 0


def read_everything(listener: Listener, root: str, place: Path) -> None:
    """All verbs that look."""
    listener.answer("prove", "t3", "--root", root, "--out", "proof.json")
    listener.heard.append(Path("proof.json").read_text())
    assert listener.run("check-proof", "proof.json", "--root", root) == 0
    assert listener.run("report", root, "--html", "page.html") == 0
    listener.heard.append(Path("page.html").read_text())
    for line in (["status"], ["status", "--permits"], ["log"], ["diff", root, root], ["digest", "texts.jsonl"]):
        assert listener.run(*line) == 0, line
    deletions = [{"sequence": 1, "contentDigest": digest_of(b"nothing"), "reason": "owner.request"}]
    Path("deletions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in deletions))
    Path("exam.jsonl").write_text(json.dumps({"sequence": 1, "benchmark": "exam", "text": WORDS[5], "words": 5}) + "\n")
    listener.run("affected", "--tombstones", "deletions.jsonl", "--benchmarks", "exam.jsonl")


def train_with_mishaps(listener: Listener, place: Path, root: str) -> None:
    """A watched job that trains, saves, and then fails in several ways."""
    listener.answer("run", "start", "--alias", "prod", "--run-id", "first")
    store, events = LocalStore(str(place / ".shardrel" / "store")), StringIO()
    watch = Watch(events)
    plan = TrainPlan(columns=("text", "n"), global_batch=8)
    cache = ShardCache(place / "cache", store)
    signer = load(place / ".shardrel" / "keys", "admin")
    parts = {"model": torch.nn.Linear(2, 2)}
    with watch.served("127.0.0.1", 0) as port:
        pin = join(GROUP, store, cache, dataset="default", run="first", plan=plan, watch=watch)
        begin = resume(GROUP, store, pin, parts, signer=signer)
        for batch in steps(GROUP, cache, pin, begin.cut):
            listener.heard += [repr(pin), repr(batch.before)]
            assert any(MARK in text for text in batch.table["text"].to_pylist())
            if batch.step == 2:
                break
        checkpoint(GROUP, store, pin, parts, batch.after, signer=signer)
        in_workers(listener, cache, pin, batch.after)
        for path in ("/metrics", "/readyz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                listener.heard.append(answer.read().decode())
        listener.fails(lambda: batch.tensor("text"))
        unfit = PackPlan(column="n", rows=2, length=100)
        listener.fails(lambda: list(packed(GROUP, cache, pin, begin.cut, unfit, workers=1)))
        other = TrainPlan(columns=("absent",), global_batch=8)
        listener.fails(lambda: join(GROUP, store, cache, dataset="default", run="first", plan=other, watch=watch))
        damage(place)
        fresh = ShardCache(place / "fresh", store)
        listener.fails(lambda: join(GROUP, store, fresh, dataset="default", run="first", plan=plan, watch=watch))
        listener.fails(lambda: list(loader(GROUP, fresh, pin, begin.cut, workers=1, steps=3)))
        with pytest.raises(RuntimeError) as told:  # as torch tells of an error in a worker of a loader of one's own
            list(DataLoader(dataset(GROUP, fresh, pin, begin.cut, steps=3), batch_size=None, num_workers=1))
        listener.heard.append(str(told.value))
        ranks = run_ranks(2, lambda group: join(group, store, fresh, dataset="default", run="first", plan=plan))
        listener.heard += [repr(one) + repr(getattr(one, "context", None)) for one in ranks]
    watch.events.say("careless", text=WORDS[0], facts=[WORDS[1]])
    listener.heard.append(events.getvalue())
    assert '"withheld"' in events.getvalue()
    assert listener.run("run", "show", "first") == 0
    assert listener.run("verify", root) == 1


def in_workers(listener: Listener, cache: ShardCache, pin: PinnedRun, cut: Cut) -> None:
    """Batches and packed rows from worker processes."""
    pack = PackPlan(column="text", rows=2, length=100)
    for steps_of in (
        loader(GROUP, cache, pin, cut, workers=1, steps=cut.step + 1),
        packed(GROUP, cache, pin, cut, pack, workers=1, steps=cut.step + 1),
    ):
        listener.heard += [repr(one.after) for one in steps_of] + [repr(steps_of.state_dict())]


def damage(place: Path) -> None:
    """Put plain marked bytes where a shard was."""
    for path in (place / ".shardrel" / "store" / "objects").rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"PAR1":
            table = pq.read_table(path)
            if "text" in table.column_names:
                path.chmod(0o600)
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink, compression="none", use_dictionary=False)
                path.write_bytes(sink.getvalue().to_pybytes())
                return


def records_of(place: Path) -> Iterator[str]:
    """All that is in the store and is no Parquet file."""
    for path in (place / ".shardrel" / "store").rglob("*"):
        if path.is_file() and (data := path.read_bytes())[:4] != b"PAR1":
            yield data.decode(errors="replace")


def test_nothing_tells_content(listener: Listener, place: Path) -> None:
    root = publish_all(listener)
    bad_sources(listener, root)
    read_everything(listener, root, place)
    train_with_mishaps(listener, place, root)
    listener.heard += records_of(place)
