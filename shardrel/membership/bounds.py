"""What a member's tuple, and a part of a snapshot or of a member index, may hold at most.

The verifier has these numbers from the text. Source: schemas/SPEC.md#member-tuples, #snapshot
"""

MAX_ID_BYTES = 1024
MAX_FIELD_BYTES = 4096

PART_BYTES = 64 * 1024 * 1024
PART_RECORDS = 262_144
