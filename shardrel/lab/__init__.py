"""The crash laboratory: a checkpoint transaction is killed for real, recovered, and compared with one that was not."""
