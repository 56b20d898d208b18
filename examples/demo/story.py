"""``make demo``: one release from a folder of files to a training job, and what happens to those who tamper.

Everything runs for real, through the command ``shardrel``, on the embedded store in ``.demo``. The story stops with a
non-zero exit status as soon as anything goes differently than told.
"""

import shutil
import sys

from examples.demo.narrator import ROOT, Narrator, NotAsTold
from examples.demo.releasing import gather, last_word, release, withdraw
from examples.demo.tampering import tampering
from examples.demo.training import training
from shardrel import clock


def tell_story(tell: Narrator) -> None:
    """All chapters in order."""
    records = gather(tell)
    released = release(tell, records)
    training(tell, released)
    tampering(tell, released)
    now = withdraw(tell, released)
    last_word(tell, now)


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
