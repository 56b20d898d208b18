"""Source files as batches of Arrow in bounded memory, whatever their format. Source: schemas/SPEC.md#sources."""

from shardrel.sources.files import SourcePath, list_files
from shardrel.sources.formats import open_source
from shardrel.sources.source import BATCH_BYTES, SourceFile

__all__ = ["BATCH_BYTES", "SourceFile", "SourcePath", "list_files", "open_source"]
