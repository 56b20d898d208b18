"""The page of a bundle: drawn from its records alone, whole, and the same each time."""

import re
from xml.etree import ElementTree

import pytest

from shardrel.lab import bundle as bundles
from shardrel.lab.page import page
from tests.support.lab import Drilled


def pictures(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)]


def texts(picture: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in picture.iter("text")]


@pytest.mark.parametrize("barrier", ["fsync", "rename"])
def test_every_event_process_and_generation_is_drawn(barrier: str, request: pytest.FixtureRequest) -> None:
    drilled: Drilled = request.getfixturevalue(barrier)
    found = bundles.read(drilled.folder)
    html = page(found)
    timeline, topology, lineage = pictures(html)
    bars = list(timeline.iter("rect"))
    assert len(bars) == len(found.recovery.events)
    assert [bar.get("class") == "kill" for bar in bars] == [False] * (len(bars) - 1) + [True]
    statuses = [text for text in texts(topology) if text.startswith("exit")]
    assert sorted(statuses) == sorted(["exit 0"] * 6 + ["exit -9"])
    boxes = sum(len(one.checkpoints) for one in found.recovery.lineages)
    assert len([text for text in texts(lineage) if text.startswith("generation")]) == boxes
    assert [text for text in texts(lineage) if "selected" in text] == [
        f"generation {found.recovery.choice.generation}, selected"
    ]


def test_the_page_asks_for_nothing_and_is_the_same_each_time(fsync: Drilled) -> None:
    html = page(bundles.read(fsync.folder))
    assert html == page(bundles.read(fsync.folder))
    assert not re.findall(r"(?:src|href)=|<script|url\(|https?:", html)
