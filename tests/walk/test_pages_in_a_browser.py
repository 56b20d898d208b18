"""The pages as a browser shows them: nothing complained of, nothing asked for, nothing cut or on top of another."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, Page, browser
from tests.support.command import shardrel_in

EVIDENCE = Path(__file__).resolve().parents[2] / "docs" / "crash-lab"
WIDTHS = (1280, 390)

# Texts of a picture whose boxes meet, or that reach out of it.
UNREADABLE = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  const out = all.filter(([, r]) => r.left < frame.left - 1 || r.right > frame.right + 1
    || r.top < frame.top - 1 || r.bottom > frame.bottom + 1).map(([t]) => 'out: ' + t);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const on = all.flatMap(([t, r], i) => all.slice(i + 1).filter(([, q]) => meet(r, q)).map(([u]) => t + ' on ' + u));
  return [...out, ...on];
})
"""
# Words that a column is too narrow for, or that a window cuts.
TOO_WIDE = "document.scrollingElement.scrollWidth - window.innerWidth"
INK_ON_PAPER = """
(() => {
  const light = colour => {
    const part = colour.match(/[0-9.]+/g).slice(0, 3).map(x => x / 255)
      .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll('p,h1,h2,dt,dd,th,td,text')].map(one => {
    const style = getComputedStyle(one);
    const ink = light(one.tagName === 'text' ? style.fill : style.color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
})()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


def check(page: Page, path: Path, text: str) -> None:
    """What holds for every page of ours."""
    assert page.complaints == []
    assert page.asked == [path.resolve().as_uri()]
    assert text in page.value("document.body.innerText")
    assert page.value(UNREADABLE) == []
    assert page.value(TOO_WIDE) <= 0
    assert page.value(INK_ON_PAPER) >= 4.5  # as WCAG asks of text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("barrier", ["commit-after-file-fsync", "commit-after-rename"])
def test_the_committed_pages_are_readable(chromium: Browser, barrier: str, width: int, dark: bool) -> None:
    path = EVIDENCE / f"{barrier}.html"
    page = chromium.open(path, width, dark=dark)
    check(page, path, f"Crash drill: {barrier}")
    assert page.value("document.querySelectorAll('svg').length") == 3


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Of a release that was admitted and trained on, and whose permits a deletion closed."""
    shardrel = shardrel_in(tmp_path, monkeypatch, capsys)
    lines = [json.dumps({"id": f"t{number}", "text": f"text number {number}"}) for number in range(60)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "gone.jsonl").write_text('{"sequence": 1, "sampleId": "t9", "reason": "owner.request"}\n')
    shardrel("init")
    snapshot = shardrel("snapshot", "texts.jsonl", "--id-column", "id")["snapshot"]
    root = shardrel("publish", snapshot, "--source", "texts.jsonl", "--shards", "3")["root"]
    shardrel("verify", root)
    shardrel("approve", root)
    shardrel("admit", root, "--alias", "prod")
    shardrel("run", "start", "--alias", "prod", "--run-id", "first")
    shardrel("fence", "tombstones", "gone.jsonl")
    shardrel("report", root, "--html", "report.html")
    return tmp_path / "report.html"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_releases_report_is_readable(chromium: Browser, report: Path, width: int, dark: bool) -> None:
    check(chromium.open(report, width, dark=dark), report, "60 records in 3 shards")


def test_what_is_checked_can_be_wrong(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        '<meta name="viewport" content="width=device-width"><body style="background:#fff">'
        '<svg viewBox="0 0 100 100" width="100"><text x="5" y="20">one</text><text x="8" y="21">two</text>'
        '<text x="90" y="80">outside</text></svg><p style="color:#bbb">faint</p><p>%s</p>'
        '<script>console.error("said")</script><img src="absent.png">' % ("w" * 200)
    )
    page = chromium.open(path, 390)
    assert any("said" in one for one in page.complaints)
    assert path.with_name("absent.png").as_uri() in page.asked
    assert page.value(UNREADABLE) == ["out: outside", "one on two"]
    assert page.value(TOO_WIDE) > 0
    assert page.value(INK_ON_PAPER) < 4.5
