"""The common options stand before or after the verb, and in the environment."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from shardrel.cli.output import Result
from shardrel.cli.settings import Settings, group, verb


def show(settings: Settings, word: str = "") -> Result:
    """Answer what was understood."""
    values = {"store": settings.store, "dataset": settings.dataset, "keys": str(settings.keys), "word": word}
    return Result(
        data={**values, "endpoint": settings.endpoint_url, "key": list(settings.key)},
        headline="shown",
        facts=[("store", settings.store)],
    )


def ask(*line: str) -> dict[str, Any]:
    app = typer.Typer()
    app.callback()(group("Top.", environment=True))
    inner = typer.Typer()
    inner.callback()(group("Inner."))
    app.command("show")(verb(show))
    inner.command("show")(verb(show))
    app.add_typer(inner, name="inner")
    app(args=list(line), standalone_mode=False)
    return {}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHARDREL_STORE", "SHARDREL_DATASET", "SHARDREL_KEYS", "SHARDREL_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def understood(capsys: pytest.CaptureFixture[str], *line: str) -> dict[str, Any]:
    ask(*line)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    "line",
    [
        ("--store", "s", "--json", "show"),
        ("show", "--store", "s", "--json"),
        ("--json", "inner", "--store", "s", "show"),
        ("inner", "show", "--store=s", "--json"),
        ("--store", "other", "show", "--store", "s", "--json"),
    ],
)
def test_before_and_after_the_verb(line: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert understood(capsys, *line)["store"] == "s"


def test_the_environment_stands_behind_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDREL_STORE", "from-environment")
    monkeypatch.setenv("SHARDREL_DATASET", "corpus")
    monkeypatch.setenv("SHARDREL_KEYS", "k")
    assert understood(capsys, "show", "--json") == {
        "store": "from-environment",
        "dataset": "corpus",
        "keys": "k",
        "word": "",
        "endpoint": None,
        "key": [],
    }
    assert understood(capsys, "--store", "line", "inner", "show", "--json")["store"] == "line"


def test_keys_may_be_named_more_than_once_and_the_later_place_wins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDREL_KEY", "one awskms:two")
    assert understood(capsys, "show", "--json")["key"] == ["one", "awskms:two"]
    assert understood(capsys, "--key", "a", "show", "--json")["key"] == ["a"]
    assert understood(capsys, "--key", "a", "inner", "show", "--key", "b", "--key", "c", "--json")["key"] == ["b", "c"]


def test_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    answer = understood(capsys, "show", "--json")
    assert Path(answer["store"]) == Path(".shardrel/store")
    assert answer["dataset"] == "default"


def test_people_get_lines_and_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    ask("show", "--store", "s")
    assert capsys.readouterr().out.split() == ["shown", "store", "s"]


def test_a_paragraph_of_help_is_broken_by_the_terminal_alone() -> None:
    def answer(settings: Settings) -> Result:
        """First words.

        A paragraph
        of two lines:

          what is indented
          stays
        """
        return show(settings)

    assert verb(answer).__doc__ == "First words.\n\nA paragraph of two lines:\n\n  what is indented\n  stays"
