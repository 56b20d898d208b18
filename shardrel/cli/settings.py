"""The options that every verb has, before or after its name; each also from the environment.

The later one on the line wins, then the environment, then the default.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from shardrel.cli.output import Result, write_result
from shardrel.errors import UnavailableError

DEFAULT_STORE = "./.shardrel/store"
DEFAULT_KEYS = "./.shardrel/keys"
DEFAULT_DATASET = "default"
_PANEL = "Common options"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the store, the gate and the keys are, and for whom to print.

    Attributes:
        key: Keys to sign with, as a person names them; where there is none, those of the folder that may.
    """

    store: str = DEFAULT_STORE
    dataset: str = DEFAULT_DATASET
    keys: Path = Path(DEFAULT_KEYS)
    key: tuple[str, ...] = ()
    as_json: bool = False
    endpoint_url: str | None = None


_OPTIONS: dict[str, tuple[Any, str, str, str, str]] = {
    "store": (
        str | None, "--store", "SHARDREL_STORE", "URL", f"Folder, file:// or s3://bucket/prefix; default {DEFAULT_STORE}.",
    ),
    "dataset": (str | None, "--dataset", "SHARDREL_DATASET", "NAME", f"The gate to use; default {DEFAULT_DATASET}."),
    "keys": (Path | None, "--keys", "SHARDREL_KEYS", "DIR", f"Folder of private keys; default {DEFAULT_KEYS}."),
    "key": (
        list[str] | None, "--key", "SHARDREL_KEY", "REF",
        "Sign with this one, a name, PEM file or awskms:ARN, and with none of the folder; may be repeated.",
    ),
    "endpoint_url": (
        str | None, "--endpoint-url", "AWS_ENDPOINT_URL", "URL", "Address of an S3 server other than AWS.",
    ),
}  # fmt: skip
"""By parameter: type, option, variable, metavar and help."""


def _options(*, environment: bool) -> dict[str, Any]:
    """Declarations by parameter name; only the outermost ones look into the environment."""
    declared: dict[str, Any] = {}
    for name, (kind, flag, variable, metavar, text) in _OPTIONS.items():
        option = typer.Option(
            flag,
            metavar=metavar,
            help=f"{text} (env {variable})",
            envvar=variable if environment else None,
            # The name of a key file may be in any encoding.
            parser=_there if metavar == "REF" else None,
            show_envvar=False,
            show_default=False,
            rich_help_panel=_PANEL,
        )
        declared[name] = Annotated[kind, option]
    as_json = typer.Option("--json", help="Print exactly one JSON object.", show_default=False, rich_help_panel=_PANEL)
    return {**declared, "as_json": Annotated[bool, as_json]}


def _parameters(*, environment: bool) -> list[inspect.Parameter]:
    return [
        _strict(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if name == "as_json" else None
            )
        )
        for name, kind in _options(environment=environment).items()
    ]


def _merged(before: Settings | None, values: dict[str, Any]) -> Settings:
    """Take the common options out of ``values`` and lay them over what stood before the verb."""
    given = {name: values.pop(name) for name in _options(environment=False)}
    given["key"] = tuple(given["key"] or ()) or None
    base = before or Settings()
    return replace(base, **{name: value for name, value in given.items() if value not in (None, False)})


def _there(text: str) -> str:
    """A value; a script has an empty one for a variable that is not set.

    Raises:
        BadParameter: Which names the option.
    """
    if not text or "\0" in text:
        raise typer.BadParameter("it has a NUL character" if text else "it is empty")
    return text


def _path(text: str) -> Path:
    """A file or a folder; its name may be in any encoding."""
    return Path(_there(text))


def _text(text: str) -> str:
    """A value that can be written down."""
    try:
        text.encode()
    except UnicodeEncodeError as err:
        raise typer.BadParameter("it is not UTF-8") from err
    return _there(text)


def _strict(parameter: inspect.Parameter) -> inspect.Parameter:
    """The same parameter, with no value that is empty or cannot be written down."""
    base, *metadata = get_args(parameter.annotation) if get_origin(parameter.annotation) is Annotated else (None,)
    kinds = {one for kind in (base, *get_args(base)) for one in (kind, *get_args(kind))}
    if base is not None and not any(get_origin(kind) is Literal for kind in kinds):
        info = metadata[0]
        if info.parser is not None:
            return parameter
        if Path in kinds:
            info.parser = _path
        elif str in kinds:
            info.parser = _text
    return parameter


def _declare(wrapper: Callable[..., None], own: list[inspect.Parameter], *, environment: bool) -> None:
    """Show typer the signature that it is to parse."""
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    parameters = [context, *own, *_parameters(environment=environment)]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def group(text: str, *, environment: bool = False, own: Sequence[inspect.Parameter] = ()) -> Callable[..., None]:
    """A callback for an app of verbs that takes the common options before the verb.

    Args:
        text: What the verbs are for.
        environment: Whether options are also read from there.
        own: Options that do their work while they are parsed.
    """

    def callback(context: typer.Context, **values: Any) -> None:
        context.obj = _merged(context.obj, values)

    _declare(callback, list(own), environment=environment)
    callback.__doc__ = text
    return callback


def verb(function: Callable[..., Result]) -> Callable[..., None]:
    """Make a command of a function of ``Settings`` and its own options that answers a ``Result``."""

    def command(context: typer.Context, **values: Any) -> None:
        settings = _merged(context.obj, values)
        result = function(settings, **values)
        written = write_result(result, as_json=settings.as_json)
        status = result.status or (0 if written else UnavailableError.exit_status)
        if status:
            raise typer.Exit(status)

    own = [_strict(one) for one in list(inspect.signature(function, eval_str=True).parameters.values())[1:]]
    _declare(command, own, environment=False)
    command.__name__ = function.__name__
    command.__doc__ = _flowing(inspect.cleandoc(function.__doc__ or ""))
    return command


def _flowing(text: str) -> str:
    """Each paragraph as one line, which a terminal breaks at its own width; what is indented stays as it is."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)
