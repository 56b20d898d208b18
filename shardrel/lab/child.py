"""An isolated process of a drill: one task on stdin, answers on stdout. Source: schemas/SPEC.md#crash-lab.

python -m shardrel.lab.child [SECONDS]: where it is not done by then, it says where it is, and ends.
"""

import faulthandler
import sys
from functools import partial
from pathlib import Path

from shardrel.canonical import json
from shardrel.checkpoint.commits import read_run
from shardrel.checkpoint.group import SoloGroup
from shardrel.checkpoint.load import load
from shardrel.checkpoint.manifest import Expected
from shardrel.checkpoint.preflight import read_commit
from shardrel.checkpoint.recovery import recover
from shardrel.data.cache import ShardCache
from shardrel.data.order import ORDER_FUNCTION
from shardrel.errors import ErrorCode, RunFailedError
from shardrel.lab import handoff
from shardrel.lab.barrier import Event
from shardrel.lab.evaluation import evaluate, read_split
from shardrel.lab.evidence import Choice
from shardrel.lab.leader import lead
from shardrel.lab.model import Training, state_root
from shardrel.lab.retained import read_state, retained
from shardrel.lab.stores import open_at
from shardrel.lab.tasks import (
    Answer,
    Committed,
    Evaluate,
    Evaluated,
    Group,
    Happened,
    Place,
    Publish,
    Recover,
    Recovered,
    Reshard,
    Task,
    Train,
    Trained,
)
from shardrel.lab.transaction import transact
from shardrel.lab.watched import watch
from shardrel.records.checkpoint import OrderParameters
from shardrel.store.port import Store
from shardrel.train.admission import join
from shardrel.train.group import connect
from shardrel.train.pin import TrainPlan
from shardrel.train.session import resume, steps
from shardrel.trust import keyring
from shardrel.trust.keys import SigningKey

RUNNER = keyring.ADMIN
TRAIN = "train"


def train(task: Train) -> Trained:
    """One rank's whole life.

    Ranks: all.
    """
    with connect(timeout_s=120) as group:
        store = _store(task.place)
        cache = ShardCache(Path(task.cache), store)
        training = Training(task.place.seed)
        signer = _key(task.place) if group.rank == 0 else None
        pin = join(group, store, cache, dataset=task.place.dataset, run=task.place.run, plan=_plan(task))
        begin = resume(group, store, pin, training.parts, signer=signer)
        trace: list[str] = []
        cut = begin.cut
        for batch in steps(group, cache, pin, begin.cut):
            training.step(group, batch)
            cut = batch.after
            trace.append(cut.ledger)
            handoff.write(Path(task.handoff) / str(cut.step), group.rank, training.state, cut)
            if len(trace) == task.batches:
                break
    return Trained(trace=tuple(trace), step=cut.step)


def publish(task: Publish) -> Answer:
    """One or more transactions.

    Effects: checkpoints; a watched one may end anywhere.
    """
    made = []
    for one in task.publications:
        place = task.place
        store = watch(one.store, place.server, _ask) if task.watched else open_at(one.store, place.server)
        copies = handoff.read(Path(one.handoff), one.world_size)
        done = transact(store, place.dataset, place.run, one.attempt, copies, _order(place), _key(place))
        made.append(done.commit)
    return Committed(commits=tuple(made))


def recovery(task: Recover) -> Answer:
    """Look at what lies there by name, and choose.

    Effects: may admit an installed commit record.
    """
    place, store = task.place, _store(task.place)
    scanned = _scan(store, place.run)
    head = read_run(store, place.dataset, place.run).head
    hinted = None if head is None else head.generation
    selected = recover(store, place.dataset, Expected(run_id=place.run, order=_order(place)), _key(place))
    if selected is None:
        raise RunFailedError(ErrorCode.CHECKPOINT_NONE, "there is no checkpoint to recover")
    record = selected.installed.record
    choice = Choice(
        scanned=tuple(scanned),
        hinted=hinted,
        hint="current" if hinted == record.generation else "stale",
        generation=record.generation,
        step=record.cut.step,
        helped=selected.helped,
        passed_over=tuple(one.generation for one in selected.passed_over),
        ledger=record.cut.ledger,
        state_root=state_root(read_state(store, selected.installed)),
    )
    return Recovered(choice=choice)


def reshard(task: Reshard) -> Answer:
    """The same state and cut, stored by another number of ranks.

    Effects: one checkpoint.
    """
    place, store = task.place, _store(task.place)
    key = _key(place)
    expected = Expected(run_id=place.run, order=_order(place))
    restored = load(SoloGroup(), store, dataset=place.dataset, expected=expected, required=(), signer=key)
    if restored is None or restored.generation != task.generation:
        raise RunFailedError(ErrorCode.CHECKPOINT_NONE, "the generation to reshard is not the newest one")
    copies = [(restored.state, restored.cut)] * task.world_size
    done = transact(store, place.dataset, place.run, task.attempt, copies, _order(place), key)
    return Committed(commits=(done.commit,))


def evaluation(task: Evaluate) -> Answer:
    """Both sides at one step."""
    split = read_split(_store(task.recovered), task.root, "test")
    sides = []
    for place in (task.reference, task.recovered):
        kept = retained(_store(place), place.dataset, place.run)
        sides.append([one for one in kept if one.installed.record.cut.step == task.step][-1])
    reference, recovered = sides
    return Evaluated(
        reference=evaluate(split, "reference", reference.fact, reference.state),
        recovered=evaluate(split, "recovered", recovered.fact, recovered.state),
    )


def _scan(store: Store, run: str) -> list[int]:
    found: list[int] = []
    while read_commit(store, run, len(found)) is not None:
        found.append(len(found))
    return found


def _plan(task: Train) -> TrainPlan:
    order = _order(task.place)
    return TrainPlan(
        columns=("image", "label"),
        global_batch=task.global_batch,
        seed=order.seed,
        block_shards=order.block_shards,
        split=order.split,
    )


def _order(place: Place) -> OrderParameters:
    return OrderParameters(function=ORDER_FUNCTION, seed=place.seed, block_shards=8, split=TRAIN)


def _store(place: Place) -> Store:
    return open_at(place.store, place.server)


def _key(place: Place) -> SigningKey:
    return keyring.load(Path(place.keys), RUNNER)


def _ask(event: Event) -> None:
    """Tell the event, and go on when it is acknowledged. The one that is not is the last."""
    _say(Happened(event=event))
    if not sys.stdin.buffer.read(1):
        raise RunFailedError(ErrorCode.RUN_RANK_FAILED, "nobody acknowledges events any more")


def _say(answer: Answer) -> None:
    sys.stdout.buffer.write(json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _watch(seconds: str | None = None) -> None:
    """A process that hangs tells where on stderr, and ends with status 1."""
    if seconds is not None:
        faulthandler.dump_traceback_later(float(seconds), exit=True)


def main() -> None:
    """Do the task that stdin names."""
    task: Task = json.decode(sys.stdin.buffer.readline().rstrip(b"\n"), Task)  # type: ignore[arg-type]
    watch = partial(_watch, *sys.argv[1:])
    if not isinstance(task, Group):
        watch()
    match task:
        case Group():
            done = lead(task, train, watch)
            if task.then is not None and all(one.status == 0 for one in done.ranks):
                publish(task.then)
            _say(done)
        case Train():
            _say(train(task))
        case Publish():
            _say(publish(task))
        case Recover():
            _say(recovery(task))
        case Reshard():
            _say(reshard(task))
        case Evaluate():
            _say(evaluation(task))


if __name__ == "__main__":
    main()
