"""``make demo``: one release from a folder of files to a training job, and what happens to those who tamper.

Everything runs for real, through the command ``shardrel``, on the embedded store in ``.demo``. The story stops with a
non-zero exit status as soon as anything goes differently than told.
"""

import shutil
import sys

from examples.demo.narrator import ROOT, Narrator, NotAsTold, insist
from examples.demo.releasing import gather, last_word, release, withdraw
from examples.demo.tampering import tampering
from examples.demo.training import training
from shardrel import clock

LEFT = {
    "corpus": "the corpus, as JSON Lines",
    "store": "the dataset: objects, gate, runs, checkpoints",
    "keys": "its private keys",
    "cache": "shards that the ranks fetched, and what they decoded",
    "straight.jsonl broken.jsonl": "the samples of every step of the two runs",
    "tombstones.jsonl": "the deletion",
    "before.json after.json": "the proofs about it",
    "pulled": "the release without it, fetched",
    "flipped grafted shortened": "copies of the store that were tampered with",
    "forged forged-corpus": "what the forger made",
}
"""What the story leaves behind."""


def tell_story(tell: Narrator) -> None:
    """All chapters in order."""
    tell.say(
        "Every command can be repeated in a shell where this checkout's shardrel is (`source .venv/bin/activate`):"
    )
    tell.say(f"$ {tell.setting()}")
    records = gather(tell)
    released = release(tell, records)
    training(tell, released)
    tampering(tell, released)
    now = withdraw(tell, released)
    last_word(tell, now)
    leave_behind(tell)


def leave_behind(tell: Narrator) -> None:
    """Chapter: what can be looked at."""
    tell.chapter(f"What lies in {tell.folder.name}/ now")
    for names, about in LEFT.items():
        tell.say(f"    {', '.join(names.split()):<29}{about}")
    there = {path.name for path in tell.folder.iterdir()}
    insist(there == {name for names in LEFT for name in names.split()}, f"other things lie there: {sorted(there)}")


def main() -> int:
    """Tell the story in an empty folder."""
    folder = ROOT / ".demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    began = clock.monotonic()
    try:
        tell_story(Narrator(folder=folder))
    except NotAsTold as err:
        print(f"\nNOT AS TOLD: {err}", file=sys.stderr)
        return 1
    print(f"\nAll as told, in {clock.monotonic() - began:.0f} seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
