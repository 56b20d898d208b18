"""What a file of entries means to a log that may have entries staged. Source: schemas/SPEC.md#fence-logs."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.errors import ConflictError, ErrorCode, RefusedError
from shardrel.gate.fences import Entry, StagedEntries, append, read_log, read_staged
from shardrel.records.descriptor import Descriptor
from shardrel.records.gate import Fence, FenceKind
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """Entries to take or to stage.

    Attributes:
        base: The fence that they follow: the log's, or what is staged behind it.
        entries: Those that no chunk holds yet, right behind ``base``; empty where ``base`` holds all.
        keep: Entries that are staged behind ``base`` stay.
    """

    base: Fence
    entries: tuple[Entry, ...]
    keep: bool = False

    @property
    def last(self) -> int:
        """Sequence of the last entry."""
        return self.entries[-1].sequence if self.entries else self.base.watermark

    def log(self, store: Store) -> Descriptor | None:
        """The newest chunk, once all entries are in one.

        Effects: one create a new chunk.
        """
        return append(store, self.entries, self.base.log) if self.entries else self.base.log  # type: ignore[type-var]


def compare(
    store: Store, fence: Fence, kind: FenceKind, entries: Sequence[Entry], *, stage: bool, replace: bool
) -> Taking:
    """Hold entries against the log and against what is staged.

    Args:
        store: Where the log is.
        fence: The log's fence.
        kind: Which log.
        entries: Contiguous, at least one.
        stage: They are to be staged, so they may follow what is staged, and may be a part of it.
        replace: What is staged is dropped, not followed.

    Raises:
        ConflictError: ``fence.gap``; ``fence.staged-conflict`` when other entries are staged, or when the last entry
            is inside of a staged chunk.
        RefusedError: ``fence.entry-conflict`` when the log holds another entry.
    """
    fresh = _behind(store, fence, kind, entries, follow=stage and not replace)
    standing = Fence(watermark=fence.watermark, log=fence.log)
    if fence.staged is None or replace or not fresh:
        return Taking(base=standing, entries=tuple(fresh))
    staged = read_staged(store, fence, kind)
    _agree(fresh, staged)
    last = fresh[-1].sequence
    if last < fence.staged.watermark and not stage:
        return Taking(base=Fence(watermark=last, log=_end(staged, last)), entries=(), keep=True)
    behind = tuple(entry for entry in fresh if entry.sequence > fence.staged.watermark)
    return Taking(base=Fence(watermark=fence.staged.watermark, log=fence.staged.log), entries=behind)


def _behind(store: Store, fence: Fence, kind: FenceKind, entries: Sequence[Entry], *, follow: bool) -> list[Entry]:
    """The entries behind the watermark; the others have to equal the log."""
    first = entries[0].sequence
    reached = fence.staged.watermark if follow and fence.staged is not None else fence.watermark
    if first > reached + 1:
        raise ConflictError(
            ErrorCode.FENCE_GAP,
            "entries begin right after the watermark, or before it as a repeat",
            first=first,
            watermark=fence.watermark,
        )
    old = [entry for entry in entries if entry.sequence <= fence.watermark]
    if old:
        known = {entry.sequence: entry for entry in read_log(store, fence, kind, first)}
        for entry in old:
            if known[entry.sequence] != entry:
                raise RefusedError(
                    ErrorCode.FENCE_CONFLICT, "the log holds another entry of this sequence", sequence=entry.sequence
                )
    return [entry for entry in entries if entry.sequence > fence.watermark]


def _agree(fresh: Sequence[Entry], staged: StagedEntries) -> None:
    known = {entry.sequence: entry for entry in staged.entries}
    for entry in fresh:
        if known.get(entry.sequence, entry) != entry:
            raise ConflictError(
                ErrorCode.FENCE_STAGED,
                "another entry of this sequence is staged; --replace-staged drops what is staged",
                sequence=entry.sequence,
            )


def _end(staged: StagedEntries, last: int) -> Descriptor:
    log = staged.ends.get(last)
    if log is None:
        raise ConflictError(
            ErrorCode.FENCE_STAGED,
            "an advance over a part of what is staged ends where one --stage ended",
            last=last,
            ends=[str(end) for end in sorted(staged.ends)],
        )
    return log
