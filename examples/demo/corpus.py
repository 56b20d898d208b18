"""A real text corpus that is on every machine: the sources of the Python standard library."""

import json
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What was written: JSON Lines with ``path``, ``package`` and ``text``."""

    folder: Path
    records: int
    characters: int
    undecodable: int


def library_files() -> list[Path]:
    """All modules of the standard library, tests and all, without what was installed beside it."""
    library = Path(sysconfig.get_paths()["stdlib"])
    outside = {"site-packages", "dist-packages", "__pycache__"}
    return sorted(path for path in library.rglob("*.py") if not outside.intersection(path.relative_to(library).parts))


def write_corpus(folder: Path) -> Corpus:
    """Write the corpus as a few JSON Lines files, a module a record.

    Modules that do not decode (the library has some on purpose, to test the decoder) are counted and left out.
    """
    folder.mkdir(parents=True)
    library = Path(sysconfig.get_paths()["stdlib"])
    records = characters = undecodable = 0
    outputs = [(folder / f"library-{number}.jsonl").open("w", encoding="utf-8") for number in range(_FILES)]
    for number, (path, text) in enumerate(_texts(library)):
        if text is None:
            undecodable += 1
            continue
        name = path.relative_to(library).as_posix()
        line = {"path": name, "package": name.split("/")[0].removesuffix(".py"), "text": text}
        outputs[number % _FILES].write(json.dumps(line, ensure_ascii=False) + "\n")
        records += 1
        characters += len(text)
    for output in outputs:
        output.close()
    return Corpus(folder=folder, records=records, characters=characters, undecodable=undecodable)


def _texts(library: Path) -> Iterator[tuple[Path, str | None]]:
    for path in library_files():
        try:
            with tokenize.open(path) as file:
                yield path, file.read()
        except (SyntaxError, UnicodeDecodeError):
            yield path, None
