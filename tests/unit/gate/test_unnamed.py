"""What becomes of objects that nothing retained leads to. Pure."""

from msgspec.structs import replace

from shardrel.gate.past import Past
from shardrel.gate.retention import Kept, Wanted, keep
from shardrel.gate.unnamed import Loose, sort_out
from shardrel.records.gate import GateBody, Publication, Run
from shardrel.records.sweep import Unnamed
from tests.support import gates
from tests.unit.gate.bodies import OTHER, ROOT, known

SHARD, TENSOR = gates.a_root("shard"), gates.a_root("tensor")
NOBODY = frozenset[str]()


def loose(digest: str, *, roots: frozenset[str] = NOBODY, since: int | None = None, snapshot: bool = False) -> Loose:
    return Loose(digest, "v1", snapshot, roots, bool(roots), since)


def kept(body: GateBody, *abandon: str, progress: int | None = None) -> Kept:
    past = Past(moves=(), ended={}, progress={} if progress is None else {"job": progress})
    return keep(body, past, Wanted(generations=0, abandon=frozenset(abandon)))


def writing(body: GateBody, begun: int) -> GateBody:
    return replace(body, publications={"p": Publication(snapshot=OTHER, sequence=begun)})


def training(body: GateBody) -> GateBody:
    run = Run(alias="prod", root=OTHER, generation=1, permit=None, closed=None, head=None, sequence=3)
    return replace(body, runs={"job": run})


def test_where_nobody_writes_it_goes_at_once() -> None:
    found = sort_out(known(OTHER), kept(known(OTHER)), [loose(SHARD)], NOBODY)
    assert ([one.digest for one in found.objects], found.unnamed, found.waiting) == ([SHARD], (), ())


def test_it_stays_for_whoever_was_writing_then_and_not_for_those_behind() -> None:
    for begun, goes in ((7, False), (8, True)):
        body = writing(known(OTHER), begun)
        found = sort_out(body, kept(body), [loose(SHARD, since=7)], NOBODY)
        assert bool(found.objects) is goes
        assert found.waiting == (() if goes else ("publication:p",))


def test_a_job_that_has_admitted_a_checkpoint_since_holds_nothing_back() -> None:
    body = training(known(OTHER))
    for progress, goes in ((None, False), (7, False), (8, True)):
        found = sort_out(body, kept(body, progress=progress), [loose(TENSOR, since=7)], NOBODY)
        assert bool(found.objects) is goes
    shard = sort_out(body, kept(body), [loose(SHARD, roots=frozenset({ROOT}))], NOBODY)
    assert [one.digest for one in shard.objects] == [SHARD]


def test_the_plan_remembers_when_it_was_first_seen() -> None:
    body = writing(known(OTHER), 1)
    found = sort_out(body, kept(body), [loose(SHARD), loose(TENSOR, since=2)], NOBODY)
    assert found.unnamed == (
        Unnamed(digest=SHARD, version="v1", since=body.sequence, snapshot=False, release=False),
        Unnamed(digest=TENSOR, version="v1", since=2, snapshot=False, release=False),
    )


def test_a_root_leaves_with_the_first_of_its_objects() -> None:
    """Otherwise an alias could still be moved to it."""
    body = writing(known(ROOT, OTHER), 8)
    given_up = kept(body, ROOT)
    both = [loose(ROOT, roots=frozenset({ROOT})), loose(SHARD, roots=frozenset({ROOT}), since=7)]
    found = sort_out(body, given_up, both, NOBODY)
    assert ([one.digest for one in found.objects], found.roots) == ([SHARD], (ROOT,))
    assert sort_out(body, given_up, both[:1], NOBODY).roots == ()


def test_what_a_new_snapshot_names_stays_once() -> None:
    body = known(OTHER)
    found = sort_out(body, kept(body), [loose(SHARD, snapshot=True)], frozenset({SHARD}))
    assert (found.objects, found.snapshots, found.waiting) == ((), (SHARD,), ())
