"""The chapter in which somebody who may write to the bucket tampers with a release, three times."""

import json
import random
import shutil
from pathlib import Path

from examples.demo.narrator import Narrator, insist
from examples.demo.releasing import COLUMNS, SHARDS, Released
from examples.demo.tamper import drop_a_shard, flip_a_byte, graft

SEED = 20_261_129
FORGED = "this.py"


def tampering(tell: Narrator, released: Released) -> None:
    """Chapter: a byte, a member and a descriptor; each on a copy of the store, so that the real one stays."""
    tell.chapter("Tampering, on a copy of the store")
    _a_byte(tell, released)
    _a_member(tell, released)
    _a_descriptor(tell, released)


def _copy(tell: Narrator, name: str) -> tuple[Narrator, Path]:
    shutil.copytree(tell.folder / "store", tell.folder / name)
    return tell.on(name), tell.folder / name


def _a_byte(tell: Narrator, released: Released) -> None:
    copy, store = _copy(tell, "flipped")
    shard = flip_a_byte(store, released.root, SEED)
    tell.say(f"  1. one flipped bit in {shard}")
    _fails(copy, released.root, "storage.digest-mismatch")
    copy.refused("run", "start", "--alias", "prod", code="gate.root-invalid")


def _a_member(tell: Narrator, released: Released) -> None:
    tell.say(f"  2. the text of {FORGED} replaced, and every digest and the ordered root computed anew to fit")
    forged_root = _forge(tell)
    copy, store = _copy(tell, "grafted")
    root = graft(store, released.root, tell.folder / "forged", forged_root)
    insist(root != released.root, "a forgery cannot keep the root's digest")
    _fails(copy, root, "member.content-substituted")
    copy.refused("admit", root, "--alias", "prod", code="gate.unknown-root")


def _a_descriptor(tell: Narrator, released: Released) -> None:
    copy, store = _copy(tell, "shortened")
    tell.say("  3. the last shard's descriptor dropped from the root manifest")
    root = drop_a_shard(store, released.root)
    _fails(copy, root, "root.shard-list")


def _fails(copy: Narrator, root: str, code: str) -> None:
    verdict = copy.shardrel("verify", root, expect=1, show=("verdict",))
    insist(verdict["verdict"] == "FAILED", "a tampered release passed")
    codes = list(dict.fromkeys(finding["code"] for finding in verdict["findings"]))
    insist(code in codes, f"{code} is not among the findings: {codes}")
    copy.say(f"    found: {', '.join(codes)}")


def _forge(tell: Narrator) -> str:
    """Publish the corpus with one text changed, in a store of the forger's own."""
    shutil.copytree(tell.folder / "corpus", tell.folder / "forged-corpus")
    for path in sorted((tell.folder / "forged-corpus").iterdir()):
        # Text may hold characters that splitlines() would take for the end of a line.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        path.write_text("".join(_forged_line(line) + "\n" for line in lines), encoding="utf-8")
    forger = tell.on("forged").hushed()
    forger.shardrel("init")
    snapshot = forger.shardrel("snapshot", "forged-corpus", *COLUMNS)["snapshot"]
    published = forger.shardrel("publish", snapshot, "--source", "forged-corpus", "--shards", str(SHARDS))
    return str(published["root"])


def _forged_line(line: str) -> str:
    record = json.loads(line)
    if record["path"] != FORGED:
        return line
    words = record["text"].split("\n")
    random.Random(SEED).shuffle(words)
    return json.dumps({**record, "text": "\n".join(words)}, ensure_ascii=False)
