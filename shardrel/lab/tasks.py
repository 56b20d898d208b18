"""What the isolated processes of a drill are asked, and what they answer. Source: schemas/SPEC.md#crash-lab."""

from shardrel.lab.barrier import Event
from shardrel.lab.evidence import Choice, Evaluation
from shardrel.records.fields import Count, DigestField, Name, Positive, Record


class Server(Record, frozen=True, kw_only=True):
    """An S3 server. Credentials are found where they always are.

    Attributes:
        endpoint_url: Where it is, if the usual configuration does not say.
        quoted_tokens: As a probe found.
    """

    endpoint_url: str | None
    quoted_tokens: bool


class Place(Record, frozen=True, kw_only=True):
    """Where a process works.

    Attributes:
        store: Folder of a local store, or ``s3://bucket/prefix``.
        keys: Folder of the drill's own keys.
        server: Of all stores of the task; null for folders.
    """

    store: str
    keys: str
    dataset: Name
    run: Name
    seed: Count
    server: Server | None = None


class Train(Record, tag_field="task", tag="train", frozen=True, kw_only=True):
    """As one rank of a group: resume, train so many batches, and leave the state behind each of them."""

    place: Place
    cache: str
    handoff: str
    batches: Positive
    global_batch: Positive


class Publication(Record, frozen=True, kw_only=True):
    """One transaction.

    Attributes:
        handoff: Folder of what the ranks left.
    """

    store: str
    attempt: Name
    handoff: str
    world_size: Positive


class Publish(Record, tag_field="task", tag="publish", frozen=True, kw_only=True):
    """Commit what workers left; with ``watched`` every event waits for its acknowledgement."""

    place: Place
    publications: tuple[Publication, ...]
    watched: bool


class Group(Record, tag_field="task", tag="group", frozen=True, kw_only=True):
    """As the leader of a group: start its ranks, wait for them, and commit what they left if all of them did.

    Attributes:
        logs: Folder of what the ranks say on stderr, in files named after the group.
        then: What is committed; null for nothing.
    """

    name: Name
    train: Train
    world_size: Positive
    logs: str
    then: Publish | None


class Recover(Record, tag_field="task", tag="recover", frozen=True, kw_only=True):
    """Find the newest committed generation, as a job does that knows nothing."""

    place: Place


class Reshard(Record, tag_field="task", tag="reshard", frozen=True, kw_only=True):
    """Write a generation anew, offline, for another number of ranks."""

    place: Place
    attempt: Name
    generation: Count
    world_size: Positive


class Evaluate(Record, tag_field="task", tag="evaluate", frozen=True, kw_only=True):
    """Evaluate one generation each of the reference and of the recovered store."""

    reference: Place
    recovered: Place
    root: DigestField
    step: Count


Task = Train | Group | Publish | Recover | Reshard | Evaluate


class Trained(Record, tag_field="answer", tag="trained", frozen=True, kw_only=True):
    """Ledger behind each batch, and the last step."""

    trace: tuple[DigestField, ...]
    step: Count


class RankEnd(Record, frozen=True, kw_only=True):
    """How a rank ended; null for the answer of one that failed."""

    status: int
    answer: Trained | None


class Grouped(Record, tag_field="answer", tag="group", frozen=True, kw_only=True):
    """All ranks of a group, each of which was waited for."""

    ranks: tuple[RankEnd, ...]


class Happened(Record, tag_field="answer", tag="event", frozen=True, kw_only=True):
    """An event of a watched publisher, which goes on when a byte comes."""

    event: Event


class Committed(Record, tag_field="answer", tag="committed", frozen=True, kw_only=True):
    """Commit records, in the order of the publications."""

    commits: tuple[DigestField, ...]


class Recovered(Record, tag_field="answer", tag="recovered", frozen=True, kw_only=True):
    """The choice."""

    choice: Choice


class Evaluated(Record, tag_field="answer", tag="evaluated", frozen=True, kw_only=True):
    """Both evaluations."""

    reference: Evaluation
    recovered: Evaluation


Answer = Trained | Grouped | Happened | Committed | Recovered | Evaluated
