"""``shardrel checkpoint export`` and ``import``: checkpoints for and from other programs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardrel.cli.access import the_store, the_store_to_write
from shardrel.cli.arguments import RunId
from shardrel.cli.checkpoint import Generation, commit_of, told
from shardrel.cli.output import Result
from shardrel.cli.settings import Settings
from shardrel.cli.signing import the_gate, the_signer
from shardrel.errors import RefusedError

if TYPE_CHECKING:
    from shardrel.checkpoint.imported import Target, Wanted
    from shardrel.checkpoint.objects import ObjectReader
    from shardrel.checkpoint.save import Saved
    from shardrel.records.checkpoint import CheckpointManifest


def export_checkpoint(
    settings: Settings,
    run: RunId,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to put the files into.")],
    generation: Generation = None,
    form: Annotated[
        Literal["safetensors", "dcp"], typer.Option("--format", help="dcp: torch.distributed.checkpoint's own files.")
    ] = "safetensors",
) -> Result:
    """Write a checkpoint for other programs, every byte of it checked."""
    from shardrel.checkpoint.manifest import Expected, judge
    from shardrel.checkpoint.objects import ObjectReader
    from shardrel.checkpoint.preflight import read_manifest

    store = the_store(settings)
    record, admitted = told(settings, store, run)
    installed = commit_of(store, run, generation, admitted)
    manifest = read_manifest(store, installed.record)
    for problem in judge(manifest, installed.record, Expected(run_id=record.run_id, root=record.root)):
        raise RefusedError(problem.code, "a checkpoint is not sound, so it is not exported", subject=problem.subject)
    written = _exported(ObjectReader(store), manifest, to, form)
    found = installed.record.generation
    return Result(
        data={"run": run, "generation": found, "format": form, "path": str(written), "tensors": len(manifest.tensors)},
        headline=f"Checkpoint {found} of run {run} is in {written}",
        facts=[("tensors", len(manifest.tensors)), ("format", form)],
    )


def import_checkpoint(
    settings: Settings,
    run: RunId,
    source: Annotated[
        Path,
        typer.Option(
            "--from", metavar="PATH", help="A safetensors file, a folder of them, or one that dcp.save wrote."
        ),
    ],
    under: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Put the whole state under this name.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", metavar="NAME", help="Don't import this entry; may be repeated.")
    ] = None,
) -> Result:
    """Commit what another program saved as the checkpoint that a run begins from; nothing is unpickled."""
    from shardrel.checkpoint.imported import Target, Wanted
    from shardrel.data.ledger import genesis
    from shardrel.gate.run_records import record_of

    store = the_store_to_write(settings)
    view = the_gate(settings, store)
    record = record_of(store, view, run)
    target = Target(
        store=store,
        dataset=settings.dataset,
        run=run,
        cut=genesis(record.root),
        signer=the_signer(settings, view.policy, "runner"),
    )
    form, saved = _imported(target, source, Wanted(under=under, leave_out=tuple(leave_out or ())))
    return Result(
        data={
            "run": run,
            "generation": saved.generation,
            "step": saved.step,
            "commit": saved.commit,
            "format": form,
            "leftOut": list(leave_out or ()),
        },
        headline=f"{source} is checkpoint {saved.generation} of run {run}",
        facts=[("step", saved.step), ("format", form), ("commit", saved.commit)],
    )


def _imported(target: "Target", source: Path, wanted: "Wanted") -> "tuple[str, Saved]":
    from shardrel.checkpoint.import_dcp import METADATA, import_dcp
    from shardrel.checkpoint.import_safetensors import import_safetensors, import_safetensors_folder

    if not source.is_dir():
        return "safetensors", import_safetensors(target, source, wanted)
    if (source / METADATA).exists():
        return "dcp", import_dcp(target, source, wanted)
    return "safetensors", import_safetensors_folder(target, source, wanted)


def _exported(objects: "ObjectReader", manifest: "CheckpointManifest", to: Path, form: str) -> Path:
    if form == "dcp":
        from shardrel.checkpoint.export_dcp import export_dcp

        return export_dcp(objects, manifest, to)
    from shardrel.checkpoint.export import export_safetensors

    return export_safetensors(objects, manifest, to)
