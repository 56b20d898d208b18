"""Options and arguments that several verbs share."""

from typing import Annotated, Literal

import typer

Root = Annotated[
    str, typer.Argument(metavar="ROOT", help="Digest of a root manifest, or a prefix that the gate knows.")
]
Alias = Annotated[str, typer.Option("--alias", metavar="NAME", help="The alias.")]
MixedAliases = Annotated[
    list[str],
    typer.Option(
        "--alias", metavar="NAME[=WEIGHT]", help="The alias; several with weights, such as A=0.7 and B=0.3, for a mix."
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE", help="Files, folders (but names with . or _ first) or globs.")
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Threads.")]
Engine = Annotated[
    Literal["local"], typer.Option("--engine", help="Where the work is spread: the threads of this machine.")
]
Newest = Annotated[int | None, typer.Option("--limit", min=0, metavar="N", help="Only the newest N.")]
OperationId = Annotated[
    str | None, typer.Option("--operation-id", metavar="ID", help="Names the effect; the same id has it once.")
]
ExpectGeneration = Annotated[
    int | None,
    typer.Option(
        "--expect-generation",
        min=0,
        max=(1 << 53) - 1,
        metavar="N",
        help="Refuse unless the alias stands at N; 0 is a new one.",
    ),
]
