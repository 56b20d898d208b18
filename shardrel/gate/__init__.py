"""The gate: one linearizable state of a dataset, a pure rule, and a file a verb."""
