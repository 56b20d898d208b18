"""Field types that every record shares. Source: schemas/SPEC.md#records"""

import re
from typing import Annotated, ClassVar

import msgspec

from shardrel.canonical.json import MAX_INTEGER, MAX_RECORD_BYTES

# Python's "$" alone also matches before a last newline; that of JSON Schema does not.
END = r"$(?!\n)"
_DIGEST = "^sha256:[0-9a-f]{64}$"
DigestField = Annotated[str, msgspec.Meta(pattern=_DIGEST, max_length=71)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]
# Names become parts of object keys: no separators, no dots first, ASCII alone.
_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}" + END
Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
# File names, host names and other free text never get into a record through this.
REASON_PATTERN = re.compile("^[a-z0-9][a-z0-9.-]{0,63}" + END)
ReasonCode = Annotated[str, msgspec.Meta(pattern=REASON_PATTERN.pattern)]
REASON_RULE = "a reason is a code: up to 64 lower-case letters, digits, dots and dashes"
_RULES = {
    REASON_PATTERN.pattern: REASON_RULE,
    _DIGEST: "a digest is sha256: and 64 lower-case hex digits",
    _NAME: "a name is up to 128 letters, digits, dots, dashes and underscores, and begins with a letter or digit",
}
_MATCHING = re.compile(r"Expected `str` matching regex ('.*?')(?= - at |$)")


def in_words(said: str) -> str:
    """What msgspec says of a field, with the rule that its pattern stands for in the pattern's place."""
    rules = {repr(pattern): rule for pattern, rule in _RULES.items()}
    return _MATCHING.sub(lambda found: rules.get(found[1], "the text has another form than it must have"), said)


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A closed, immutable record: an unknown, missing or ill-typed field refuses the bytes.

    Attributes:
        MAX_BYTES: Of a stored one of this kind, in canonical form.
    """

    MAX_BYTES: ClassVar[int] = MAX_RECORD_BYTES
