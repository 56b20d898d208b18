"""Canonical bytes: of JSON records, of record schemas and of the records in a shard."""
