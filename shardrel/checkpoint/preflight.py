"""Preflight: may this generation be restored? Reads every object once. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass

from shardrel.canonical import json
from shardrel.checkpoint.manifest import Expected, Problem, judge
from shardrel.checkpoint.objects import ObjectReader
from shardrel.digest import digest_of
from shardrel.errors import ErrorCode, FormatError, IntegrityError, NotFoundError, RefusedError
from shardrel.records.checkpoint import CheckpointManifest, CommitRecord, Region
from shardrel.records.descriptor import Descriptor
from shardrel.store.layout import commit_key
from shardrel.store.objects import get_record
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A commit record as it lies in the store."""

    digest: str
    record: CommitRecord


def read_commit(store: Store, run: str, generation: int) -> Installed | None:
    """The commit record of a generation; null when there is none.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``.
    """
    stored = store.read(commit_key(run, generation), max_bytes=json.MAX_RECORD_BYTES)
    return None if stored is None else decode_commit(stored.data, generation)


def decode_commit(data: bytes, generation: int) -> Installed:
    """A commit record of its bytes.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``.
    """
    try:
        record = json.decode(data, CommitRecord)
    except FormatError as err:
        raise FormatError(
            ErrorCode.CHECKPOINT_SCHEMA, "a commit record is not one that this version knows", generation=generation
        ) from err
    return Installed(digest=digest_of(data), record=record)


def read_manifest(store: Store, commit: CommitRecord) -> CheckpointManifest:
    """The manifest that a commit record names.

    Raises:
        FormatError: ``checkpoint.unsupported-schema``.
        RefusedError: ``checkpoint.missing-payload``, ``checkpoint.bytes``.
    """
    try:
        return get_record(store, commit.manifest, CheckpointManifest)
    except FormatError as err:
        raise FormatError(
            ErrorCode.CHECKPOINT_SCHEMA, "a manifest is not one that this version knows", generation=commit.generation
        ) from err
    except (NotFoundError, IntegrityError) as err:
        raise _refusal(_problem(err, "manifest"), commit.generation) from err


def object_problems(objects: ObjectReader, manifest: CheckpointManifest) -> list[Problem]:
    """Objects that are absent, and bytes that are not what their regions say; one object in memory at a time."""
    by_object: dict[Descriptor, list[Region]] = {}
    for entry in manifest.tensors:
        for region in entry.regions:
            by_object.setdefault(region.object, []).append(region)
    return [problem for descriptor, regions in by_object.items() for problem in _object(objects, descriptor, regions)]


def preflight(
    objects: ObjectReader, commit: CommitRecord, expected: Expected, *, every_byte: bool = True
) -> CheckpointManifest:
    """All checks of one generation.

    Args:
        objects: Where its objects are read.
        commit: Its commit record.
        expected: What it must be of.
        every_byte: Read and hash all objects too; whoever leaves it to the readers of the objects says no.

    Raises:
        FormatError, RefusedError: With the code of the first problem; its context counts them and names the subject.
    """
    manifest = read_manifest(objects.store, commit)
    problems = judge(manifest, commit, expected) or (object_problems(objects, manifest) if every_byte else [])
    if problems:
        raise _refusal(problems[0], commit.generation, len(problems))
    return manifest


def region_of(data: bytes, region: Region) -> bytes | memoryview:
    """The bytes of a region inside of its object, checked.

    Args:
        data: The object as it was read, checked against its descriptor.
        region: Where to look.

    Raises:
        IntegrityError: ``checkpoint.bytes``.
    """
    if region.digest == region.object.digest and region.length == len(data):
        return data  # the region is the object, which was just hashed
    part = memoryview(data)[region.start : region.start + region.length]
    if digest_of(part) != region.digest:
        raise IntegrityError(ErrorCode.CHECKPOINT_BYTES, "bytes of a tensor have another digest than the manifest says")
    return part


def _object(objects: ObjectReader, descriptor: Descriptor, regions: list[Region]) -> Iterator[Problem]:
    try:
        data = objects.read(descriptor)
        for region in regions:
            region_of(data, region)
    except (NotFoundError, IntegrityError) as err:
        yield _problem(err, descriptor.digest)


def _problem(err: NotFoundError | IntegrityError, subject: str) -> Problem:
    absent = isinstance(err, NotFoundError)
    return Problem(code=ErrorCode.CHECKPOINT_MISSING if absent else ErrorCode.CHECKPOINT_BYTES, subject=subject)


def _refusal(problem: Problem, generation: int, problems: int = 1) -> RefusedError:
    if problem.differences:
        return _of_something_else(problem, generation, problems)
    return RefusedError(
        problem.code,
        "a checkpoint is not complete and sound, so it is not restored",
        generation=generation,
        subject=problem.subject,
        problems=problems,
    )


def _of_something_else(problem: Problem, generation: int, problems: int) -> RefusedError:
    """Whoever changed a setting has to see which, and not look for damage."""
    differ = problem.differences
    told = "; ".join(
        f"{one.setting} is {one.saved} in the checkpoint and {one.wanted} in what is asked for" for one in differ
    )
    return RefusedError(
        problem.code,
        f"checkpoint {generation} is of something else, so it is not restored: {told}",
        generation=generation,
        subject=problem.subject,
        problems=problems,
        settings=[one.setting for one in differ],
        saved=[one.saved for one in differ],
        wanted=[one.wanted for one in differ],
    )
