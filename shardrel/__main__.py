"""``python -m shardrel``: the command where no script of it is on the path."""

from shardrel.cli.main import run

run()
