"""``python -m shardrel.cli``."""

from shardrel.cli.main import run

run()
