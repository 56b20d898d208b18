"""Tables of bounded size that are kept in memory, and in files beyond a budget. Source: schemas/SPEC.md#publish"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

# Smaller batches are joined; larger ones stay what they are, without a copy.
PIECE_BYTES = 4 * 1024 * 1024
# What goes to a file is copied anyway: fewer, larger pieces are gathered from faster.
SPILL_BYTES = 64 * 1024 * 1024


class Pieces(Sequence[Any]):
    """Pieces, of which the small ones wait to be joined.

    Args:
        folder: For what does not stay in memory; the caller removes it.
        memory_bytes: Bytes of tables that may stay there.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self._folder = folder
        self._left = memory_bytes
        self._pieces: list[Any] = []
        self._files: dict[int, Path] = {}
        self._small: list[Any] = []
        self._small_bytes = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, number: Any) -> Any:
        return self._pieces[number]

    def add(self, table: Any) -> None:
        """Take some rows, which may wait for others until ``flush``."""
        if not table.num_rows:
            return
        self._small.append(table)
        self._small_bytes += table.nbytes
        if self._small_bytes >= (PIECE_BYTES if self._left > 0 else SPILL_BYTES):
            self.flush()

    def flush(self) -> None:
        """Make a piece of what waits.

        Effects: writes a file in the folder when memory has no room for it.
        """
        if not self._small:
            return
        table = pa.concat_tables(self._small).combine_chunks()
        self._left -= table.nbytes
        self._pieces.append(table if self._left >= 0 else self._spilled(len(self._pieces), "read", table))
        self._small, self._small_bytes = [], 0

    @property
    def any_in_file(self) -> bool:
        """Whether not all are in memory."""
        return bool(self._files)

    def in_file(self, number: int) -> bool:
        """Whether a piece is in a file."""
        return number in self._files

    def replace(self, number: int, table: Any) -> None:
        """Put another table in the place of a piece in a file: in a file of its own.

        Effects: removes the file of the piece that was there.
        """
        old = self._files[number]
        self._pieces[number] = self._spilled(number, "scattered", table)
        old.unlink()

    def _spilled(self, number: int, state: str, table: Any) -> Any:
        path = self._folder / f"piece-{number}-{state}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        self._files[number] = path
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
