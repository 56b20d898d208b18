"""``shardrel --version``."""

import inspect
from typing import Annotated

import typer

from shardrel import __version__
from shardrel.cli.output import Result, write_result


def version_option(*, as_json: bool) -> inspect.Parameter:
    """An option before any verb that prints the version and ends."""

    def tell(asked: bool) -> None:
        if asked:
            write_result(Result(data={"version": __version__}, headline=f"shardrel {__version__}"), as_json=as_json)
            raise typer.Exit

    option = typer.Option("--version", is_eager=True, callback=tell, help="Print the version.", show_default=False)
    return inspect.Parameter(
        "version", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[bool, option], default=False
    )
