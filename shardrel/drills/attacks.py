"""The attacks that The Update Framework lists, and the drill that does each of them here.

Source: https://theupdateframework.io/docs/security/
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One of them.

    Attributes:
        name: As TUF calls it.
        drill: Its drill.
        here: What it comes to here.
        anchor: Drills of what only an anchor outside of the store answers.
    """

    name: str
    drill: str
    here: str
    anchor: tuple[str, ...] = ()


ATTACKS = (
    Attack(
        name="arbitrary software",
        drill="arbitrary-installation",
        here="a root that no key of the policy stands for is no candidate; under a gate of the thief's own it is",
        anchor=("gate-replaced",),
    ),
    Attack(
        name="endless data",
        drill="endless-data",
        here="every object is read up to its declared size, and records up to a bound",
    ),
    Attack(
        name="extraneous dependencies",
        drill="extraneous-dependencies",
        here="a release depends on nothing; what comes nearest is a column that its schema does not declare",
    ),
    Attack(
        name="fast-forward",
        drill="fast-forward",
        here="an advance is bounded by the policy; generations only grow by one (see also `claimed-watermark`)",
    ),
    Attack(
        name="indefinite freeze",
        drill="indefinite-freeze",
        here="whoever decides on an old state loses the swap (`freeze`); whoever only reads needs the anchor",
        anchor=("indefinite-freeze",),
    ),
    Attack(
        name="malicious mirrors",
        drill="malicious-mirror",
        here="every byte is held against its digest, wherever it comes from; a mirror can only fail",
    ),
    Attack(
        name="mix-and-match",
        drill="mix-and-match",
        here="a root names all its shards and their ordered members; the verifier holds them against the snapshot",
    ),
    Attack(
        name="rollback",
        drill="rollback",
        here="an old root needs today's checks and a higher generation; an older gate state needs the anchor",
        anchor=("gate-rollback",),
    ),
    Attack(
        name="slow retrieval",
        drill="slow-retrieval",
        here="a job waits for its ranks as long as it was told to; an S3 body has a least rate",
    ),
    Attack(
        name="key compromise",
        drill="key-compromise",
        here="thresholds count distinct keys, duties are separate; a stolen key leaves by `keys rotate`, for good "
        "where nobody can put back the state in which it counted",
        anchor=("retired-key",),
    ),
    Attack(
        name="wrong software",
        drill="wrong-dataset",
        here="a root, its report and its approval name their dataset and gate",
    ),
)
