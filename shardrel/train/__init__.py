"""Pinned training: join a run, train in exact order, checkpoint, resume."""
