"""The committed bad releases, unpacked into a local store. Source: fixtures/bad-releases/README.md"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "fixtures" / "bad-releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRelease:
    """A release in a folder of its own.

    Attributes:
        codes: The finding that it is named after, and those that follow from it.
    """

    store: Path
    dataset: str
    root: str
    codes: frozenset[str]


def names() -> list[str]:
    """Codes that have a fixture."""
    return sorted(path.parent.name for path in FOLDER.glob("*/release.json"))


def sound(folder: Path) -> BadRelease:
    """The release that the bad ones were made of."""
    base = _read(FOLDER / "base.json")
    _write(folder, _objects(base))
    return BadRelease(store=folder, dataset=base["dataset"], root=base["root"], codes=frozenset())


def unpacked(name: str, folder: Path) -> BadRelease:
    """A bad release, complete: the sound one with what it adds, and without what it takes away."""
    bad = _read(FOLDER / name / "release.json")
    objects = {**_objects(_read(FOLDER / "base.json")), **_objects(bad)}
    _write(folder, {key: data for key, data in objects.items() if key not in bad["removed"]})
    codes = frozenset([bad["code"], *bad["also"]])
    return BadRelease(store=folder, dataset=bad["dataset"], root=bad["root"], codes=codes)


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def _objects(value: dict[str, Any]) -> dict[str, bytes]:
    text = {key: data.encode() for key, data in value["text"].items()}
    return {**text, **{key: base64.b64decode(data) for key, data in value["base64"].items()}}


def _write(folder: Path, objects: dict[str, bytes]) -> None:
    """Files and folders that their owner alone can write, as a local store asks."""
    folder.mkdir(mode=0o755, exist_ok=True)
    for key, data in objects.items():
        path = folder
        for part in key.split("/")[:-1]:
            path = path / part
            path.mkdir(mode=0o755, exist_ok=True)
        (folder / key).write_bytes(data)
        (folder / key).chmod(0o644)
