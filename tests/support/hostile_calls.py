"""Every option of every verb with every value that nobody should give it, derived from the verbs themselves."""

import inspect
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer.models

from shardrel.cli.main import _GROUPS, _VERBS

NO_SUCH = "sha256:" + "0" * 64
LONG = "x" * 5_000
NOT_UTF8 = os.fsdecode(b"\xff\xfe.jsonl")

DEVICES = {"null-device": (1, 3), "zero-device": (1, 5), "full-device": (1, 7)}

Kind = Literal["path", "text", "number", "choice"]

VALUES: Mapping[Kind, tuple[str, ...]] = {
    "path": (
        "", ".", "missing/deep/file", "folder", "empty", "garbage", "null-device", "full-device", "zero-device", "/proc/self/mem",
        NOT_UTF8, LONG, "texts.jsonl/below", "link-to-nowhere", "a\0b",
    ),
    "text": ("", " ", "-", "../x", "a/b", "\n", "é", NOT_UTF8, LONG, NO_SUCH, "sha256:", "a\0b", "[", "*", "folder"),
    "number": ("", "-1", "1e3", "0x10", "9" * 30, str(1 << 63), str(1 << 64), "nan", "inf", "１", "1_0"),
    "choice": ("", "x", LONG),
}  # fmt: skip

COMMON: Mapping[str, Kind] = {
    "--store": "path",
    "--dataset": "text",
    "--keys": "path",
    "--key": "text",
    "--endpoint-url": "text",
}


# All verbs read these options in one place; what differs is who reads, who writes, who signs and who makes keys.
WITH_COMMON = {
    ("init",),
    ("status",),
    ("approve",),
    ("publish",),
    ("log",),
    ("keys", "make-encryption"),
    ("run", "start"),
}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One option or argument of a verb."""

    name: str
    kind: Kind
    many: bool
    flag: str | None


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command line with one value that is wrong, or at least strange."""

    verb: tuple[str, ...]
    parameter: str
    kind: Kind
    value: str
    line: tuple[str, ...]

    @property
    def title(self) -> str:
        """For people."""
        shown = self.value if len(self.value) < 40 else self.value[:10] + "…"
        return f"{' '.join(self.verb)} {self.parameter}={shown!r}"


def make_odd_files(folder: Path) -> None:
    """What the values name: devices of its own where the superuser runs this, whom nothing keeps from replacing /dev/null."""
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "garbage").write_bytes(bytes(range(256)) * 10)
    (folder / "link-to-nowhere").symlink_to("nowhere")
    for name, (major, minor) in DEVICES.items():
        if os.geteuid() == 0:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        else:
            (folder / name).symlink_to(f"/dev/{name.partition('-')[0]}")


def verbs() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All verbs, with their functions."""
    for name, function in _VERBS.items():
        yield (name,), function
    for group, (_, inner) in _GROUPS.items():
        for name, function in inner.items():
            yield (group, name), function


def parameters(function: Any) -> list[Parameter]:
    """What a verb takes, but for what is on or off."""
    hints = get_type_hints(function, include_extras=True)
    found = []
    for name in list(inspect.signature(function).parameters)[1:]:
        base, *metadata = get_args(hints[name])
        kinds = [one for one in (get_args(base) or (base,)) if one is not type(None)]
        many = any(get_origin(one) is list for one in (base, *kinds))
        if bool in kinds:
            continue
        found.append(Parameter(name=name, kind=_kind(name, base, kinds), many=many, flag=_flag(name, metadata[0])))
    return found


def _kind(name: str, base: Any, kinds: list[Any]) -> Kind:
    if get_origin(base) is Literal or any(get_origin(one) is Literal for one in kinds):
        return "choice"
    if Path in kinds or name in ("source", "sources", "more"):
        return "path"
    return "number" if int in kinds or float in kinds else "text"


def _flag(name: str, info: Any) -> str | None:
    if isinstance(info, typer.models.ArgumentInfo):
        return None
    named = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str) and one.startswith("--")]
    return named[0] if named else "--" + name.replace("_", "-")


def line_of(verb: tuple[str, ...], values: Mapping[str, list[str]], known: list[Parameter]) -> tuple[str, ...]:
    """A command line of these values; those of no parameter are common options."""
    options: list[str] = []
    positional: list[str] = []
    for parameter in known:
        for value in values.get(parameter.name, []):
            if parameter.flag is None:
                positional.append(value)
            else:
                options.append(f"{parameter.flag}={value}")
    options += [f"{flag}={value}" for flag in COMMON for value in values.get(flag, [])]
    return (*verb, "--json", *options, "--", *positional)


def calls(usual: Mapping[tuple[str, ...], Mapping[str, list[str]]]) -> Iterator[Call]:
    """Each verb as it is usually called, with each of its values replaced by each hostile one, once and twice.

    Args:
        usual: Values by verb and parameter; on or off options go into their own entry, which is named ``flags``.
    """
    for verb, function in verbs():
        known, base = parameters(function), usual[verb]
        for parameter in known:
            for value in VALUES[parameter.kind]:
                yield _call(verb, known, base, parameter.name, parameter.kind, [value])
            if parameter.many and base.get(parameter.name):
                yield _call(verb, known, base, parameter.name, parameter.kind, base[parameter.name] * 2)
        for flag, kind in COMMON.items():
            for value in VALUES[kind] if verb in WITH_COMMON else ():
                yield _call(verb, known, base, flag, kind, [value])


def _call(
    verb: tuple[str, ...],
    known: list[Parameter],
    base: Mapping[str, list[str]],
    name: str,
    kind: Kind,
    values: list[str],
) -> Call:
    line = line_of(verb, {**base, name: values}, known)
    return Call(verb=verb, parameter=name, kind=kind, value=values[0] if len(values) == 1 else "twice", line=line)
