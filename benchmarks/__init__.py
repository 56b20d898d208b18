"""Benchmarks: ratios against a stated baseline, both sides in one run. ``make bench`` runs them all.

Both sides have the memory and threads that the command gives itself.
"""

from shardrel.cli.bulk import for_bulk

for_bulk()
