"""Programs that use shardrel."""
