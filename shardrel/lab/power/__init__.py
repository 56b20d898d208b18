"""Power loss: every state that a disk may be left in by it is rebuilt, and recovered from. Source: schemas/SPEC.md#power-loss."""
