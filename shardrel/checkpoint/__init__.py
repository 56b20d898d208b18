"""Checkpoints that exist only when committed: plan, save, recover, load."""
