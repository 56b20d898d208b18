"""Data of a pinned run: exact sample order, verified shards, batches."""
