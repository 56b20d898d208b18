"""SHA-256 of one or two long byte strings, as the text of LLVM functions. Source: FIPS 180-4, section 6.2.

The processor's own instructions do two rounds each, and the next two have to wait for them. Those of a second string fit
between: two take hardly longer than one. The state is kept as the instructions want it: ``PLACES`` says where each of its
eight words stands.
"""

from collections.abc import Sequence

from shardrel.canonical.lanes_ir import CONSTANTS

ONE, TWO = "sha256_stream", "sha256_streams"
# Words a to h, in memory: f, e, b, a and then h, g, d, c.
PLACES = (3, 2, 7, 6, 1, 0, 5, 4)
_WORDS = "<4 x i32>"
_GROUPS = 16
_SWAPPED = ", ".join(f"i32 {4 * word + 3 - byte}" for word in range(4) for byte in range(4))


def functions() -> str:
    """``void sha256_stream(states, first, blocks)`` and ``void sha256_streams(states, first, second, blocks)``.

    States of 32 bytes follow each other, aligned to four bytes; so many blocks of 64 bytes are taken from each string.
    """
    declared = "".join(
        f"declare {_WORDS} @llvm.x86.sha256{name}({', '.join([_WORDS] * count)})\n"
        for name, count in (("rnds2", 3), ("msg1", 2), ("msg2", 2))
    )
    return declared + _function(ONE, ["%first"]) + _function(TWO, ["%first", "%second"])


def _function(name: str, strings: Sequence[str]) -> str:
    lines = [f"define void @{name}(ptr %states, {', '.join(f'ptr {one}' for one in strings)}, i64 %blocks) nounwind {{"]
    lines += ["entry:"]
    for number in range(2 * len(strings)):
        lines += [
            f"  %at{number} = getelementptr i8, ptr %states, i64 {16 * number}",
            f"  %begin{number} = load {_WORDS}, ptr %at{number}, align 4",
        ]
    lines += [
        "  %none = icmp eq i64 %blocks, 0",
        "  br i1 %none, label %done, label %block",
        "block:",
        "  %number = phi i64 [0, %entry], [%next, %block]",
    ]
    for number in range(2 * len(strings)):
        lines += [f"  %state{number} = phi {_WORDS} [%begin{number}, %entry], [%after{number}, %block]"]
    lines += ["  %place = shl i64 %number, 6"]
    streams = [_Stream(lines, number, one) for number, one in enumerate(strings)]
    # A step of one string is written behind that of the other, for the same reason.
    for group in range(_GROUPS):
        for stream in streams:
            stream.four_rounds(group)
    for stream in streams:
        stream.end()
    lines += [
        "  %next = add i64 %number, 1",
        "  %more = icmp ult i64 %next, %blocks",
        "  br i1 %more, label %block, label %stored",
        "stored:",
    ]
    lines += [f"  store {_WORDS} %after{number}, ptr %at{number}, align 4" for number in range(2 * len(strings))]
    return "\n".join([*lines, "  br label %done", "done:", "  ret void", "}", ""])


class _Stream:
    """One string within the block; names of its values begin with its number."""

    def __init__(self, lines: list[str], number: int, string: str) -> None:
        self._lines, self._number = lines, number
        self._abef, self._cdgh = f"%state{2 * number}", f"%state{2 * number + 1}"
        self._words = [self._read(string, group) for group in range(4)]

    def _do(self, instruction: str) -> str:
        name = f"%v{self._number}_{len(self._lines)}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def _read(self, string: str, group: int) -> str:
        block = self._do(f"getelementptr i8, ptr {string}, i64 %place")
        four = self._do(f"load <16 x i8>, ptr {self._do(f'getelementptr i8, ptr {block}, i64 {16 * group}')}, align 1")
        swapped = self._do(f"shufflevector <16 x i8> {four}, <16 x i8> poison, <16 x i32> <{_SWAPPED}>")
        return self._do(f"bitcast <16 x i8> {swapped} to {_WORDS}")

    def _call(self, name: str, *values: str) -> str:
        return self._do(f"call {_WORDS} @llvm.x86.sha256{name}({', '.join(f'{_WORDS} {value}' for value in values)})")

    def _add(self, left: str, right: str) -> str:
        return self._do(f"add {_WORDS} {left}, {right}")

    def four_rounds(self, group: int) -> None:
        """Rounds from four times the group's number on, and the words of those sixteen later."""
        constants = ", ".join(f"i32 {constant}" for constant in CONSTANTS[4 * group : 4 * group + 4])
        word = self._words[group % 4]
        sums = self._add(word, f"<{constants}>")
        high = self._do(
            f"shufflevector {_WORDS} {sums}, {_WORDS} poison, <4 x i32> <i32 2, i32 3, i32 poison, i32 poison>"
        )
        self._cdgh, self._abef = self._abef, self._call("rnds2", self._cdgh, self._abef, sums)
        self._cdgh, self._abef = self._abef, self._call("rnds2", self._cdgh, self._abef, high)
        if group < _GROUPS - 4:
            second, third, last = (self._words[(group + ahead) % 4] for ahead in (1, 2, 3))
            seven = self._do(f"shufflevector {_WORDS} {third}, {_WORDS} {last}, <4 x i32> <i32 1, i32 2, i32 3, i32 4>")
            begun = self._add(self._call("msg1", word, second), seven)
            self._words[group % 4] = self._call("msg2", begun, last)

    def end(self) -> None:
        """The state behind the block."""
        for place, value in enumerate((self._abef, self._cdgh)):
            number = 2 * self._number + place
            self._lines.append(f"  %after{number} = add {_WORDS} %state{number}, {value}")
