"""Clients on a stage: each waits before every store request until it is told to go on.

They are threads, of which one at a time runs; who goes on, and what goes wrong with a request, is decided
by a function of what could happen next. So one list of decisions is one interleaving, again and again.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar, cast

from shardrel.store.forwarding import ForwardingStore
from shardrel.store.port import Store, Unknown

T = TypeVar("T")

Client = Callable[[Store], None]


@dataclass(frozen=True, slots=True)
class Choice:
    """What could happen next.

    Attributes:
        who: A client, or a write that is still on its way.
        what: ``go``; for a write also ``lost before``, ``lost after`` and ``late``: no answer, and it does
            not land, or has landed, or lands whenever its turn comes.
    """

    who: str
    what: str


Choose = Callable[[Sequence[Choice]], Choice]


class Stage:
    """Runs clients over one store under one chooser."""

    def __init__(self, store: Store, choose: Choose, *, faults: int = 0) -> None:
        self._store, self._choose, self._faults = store, choose, faults
        self._players: dict[str, _Player] = {}
        self._late: dict[str, Callable[[], object]] = {}
        self.now = 0

    def run(self, clients: dict[str, Client]) -> None:
        """Play to the end; raises what a client raised."""
        self._players = {name: _Player(name) for name in clients}
        threads = [
            threading.Thread(target=player.play, args=(clients[name], _StagedStore(self._store, player, self)))
            for name, player in self._players.items()
        ]
        for thread in threads:
            thread.start()
        for player in self._players.values():
            player.parked.acquire()
        while any(not player.over for player in self._players.values()):
            self._next()
        for thread in threads:
            thread.join()
        for player in self._players.values():
            if player.error is not None:
                raise player.error

    def _next(self) -> None:
        self.now += 1
        choice = self._choose(list(self._choices()))
        if choice.who in self._late:
            self._late.pop(choice.who)()
            return
        player = self._players[choice.who]
        player.told = choice.what
        self._faults -= choice.what != "go"
        player.go.release()
        player.parked.acquire()

    def _choices(self) -> Iterator[Choice]:
        for player in self._players.values():
            if not player.over:
                yield Choice(player.name, "go")
                if player.at_write and self._faults > 0:
                    yield from (Choice(player.name, what) for what in ("lost before", "lost after", "late"))
        yield from (Choice(name, "go") for name in self._late)

    def send_late(self, name: str, write: Callable[[], object]) -> None:
        """A write whose client has stopped waiting; it lands when it is chosen, if ever."""
        self._late[f"late {name} {self.now}"] = write


@dataclass
class _Player:
    name: str
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    parked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    told: str = "go"
    at_write: bool = False
    over: bool = False
    error: BaseException | None = None

    def play(self, client: Client, store: Store) -> None:
        try:
            client(store)
        except BaseException as err:  # noqa: BLE001 (the stage raises it again, in the thread of the test)
            self.error = err
        finally:
            self.over = True
            self.parked.release()

    def wait(self, *, write: bool) -> str:
        self.at_write = write
        self.parked.release()
        self.go.acquire()
        return self.told


class _StagedStore(ForwardingStore):
    """A client's view of the store: it waits for its turn before every request."""

    def __init__(self, inner: Store, player: _Player, stage: Stage) -> None:
        super().__init__(inner)
        self._player, self._stage = player, stage

    def around(self, operation: str, key: str, request: Callable[[], T]) -> T:
        if operation in ("create", "swap"):
            return cast(T, self._write(request))
        self._player.wait(write=False)
        return request()

    def _write(self, write: Callable[[], Any]) -> Any:
        told = self._player.wait(write=True)
        if told == "lost before":
            return Unknown("staged: it did not land")
        if told == "late":
            self._stage.send_late(self._player.name, write)
            return Unknown("staged: it is on its way")
        outcome = write()
        return outcome if told == "go" else Unknown("staged: it landed")


class Switches:
    """Every schedule with few switches between clients: the decisions of one play, and those of the next.

    A play follows a prefix of decisions, and from there on lets whoever runs go on. Whatever else could have
    happened at a later decision is a prefix to be tried, unless it switches once too often.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: list[list[Choice]] = [[]]
        self._taken: list[Choice] = []
        self._prefix: list[Choice] = []

    def plays(self) -> Iterator[None]:
        """One step of the loop a play; it must use ``choose``."""
        while self._waiting:
            self._prefix = self._waiting.pop()
            self._taken = []
            yield

    def choose(self, choices: Sequence[Choice]) -> Choice:
        """The chooser of the present play."""
        at = len(self._taken)
        if at < len(self._prefix):
            chosen = self._prefix[at]
        else:
            chosen = self._going_on(choices)
            others = [choice for choice in choices if choice != chosen]
            self._waiting += [
                [*self._taken, other] for other in others if self._switches([*self._taken, other]) <= self._most
            ]
        self._taken.append(chosen)
        return chosen

    def _going_on(self, choices: Sequence[Choice]) -> Choice:
        last = self._taken[-1].who if self._taken else choices[0].who
        return next((one for one in choices if (one.who, one.what) == (last, "go")), choices[0])

    def _switches(self, taken: list[Choice]) -> int:
        faults = sum(choice.what != "go" for choice in taken)
        return faults + sum(one.who != other.who for one, other in pairwise(taken))
