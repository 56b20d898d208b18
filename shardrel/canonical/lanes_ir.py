"""SHA-256 of sixteen byte strings at once, as the text of an LLVM function. Source: FIPS 180-4, section 6.2.

A vector holds one 32-bit word of each of sixteen messages, its *lanes*, so that one instruction of AVX-512 works for
all of them. The function goes through the rows sixteen by sixteen, and through the blocks of such a group until its
longest message ends; a message that has ended keeps its state. Nothing is read outside of a row: the loads are masked.
"""

from collections.abc import Sequence
from math import isqrt

LANES = 16
FUNCTION = "sha256_rows"
# Far enough to hide the memory behind the rounds of one group; found by measuring.
_AHEAD = 2048
_STATE = 8
_ROUNDS = 64
_WORDS = f"<{LANES} x i32>"
_WIDE = f"<{LANES} x i64>"
_BYTES = "<64 x i8>"
_BITS = "<64 x i1>"
_HEAD = f"""
declare {_WORDS} @llvm.fshr.v16i32({_WORDS}, {_WORDS}, {_WORDS})
declare {_WORDS} @llvm.bswap.v16i32({_WORDS})
declare i32 @llvm.vector.reduce.umax.v16i32({_WORDS})
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare {_BYTES} @llvm.masked.load.v64i8.p0(ptr, i32, {_BITS}, {_BYTES})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @{FUNCTION}(ptr %data, ptr %starts, ptr %ends, i64 %rows, ptr %digests) #0 {{
"""
_TAIL = '}\nattributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }\n'


def function() -> str:
    """``void sha256_rows(data, starts, ends, rows, digests)``.

    ``starts`` and ``ends`` have a 64-bit place in ``data`` for each row, ``digests`` room for ``rows`` times 32 bytes;
    there is at least one row.
    """
    text = _Text()
    text.label("entry")
    text.do("br label %group")
    text.label("group")
    text.do("%base = phi i64 [0, %entry], [%next, %store]")
    rows = [_row(text, lane) for lane in range(LANES)]
    lengths = _vector(text, [row.length for row in rows])
    blocks = text(f"trunc {_WIDE} {_blocks(text, lengths)} to {_WORDS}")
    most = text(f"call i32 @llvm.vector.reduce.umax.v16i32({_WORDS} {blocks})")
    bits = text(f"shl {_WIDE} {lengths}, {_wide(3)}")
    high = text(f"trunc {_WIDE} {text(f'lshr {_WIDE} {bits}, {_wide(32)}')} to {_WORDS}")
    low = text(f"trunc {_WIDE} {bits} to {_WORDS}")
    text.do("br label %block")

    text.label("block")
    text.do("%number = phi i32 [0, %group], [%following, %block]")
    state = [f"%state{i}" for i in range(_STATE)]
    for name, first in zip(state, _FIRST, strict=True):
        text.do(f"{name} = phi {_WORDS} [{_splat(first)}, %group], [{name}new, %block]")
    text.do("%following = add i32 %number, 1")
    place = text(f"shl i64 {text('zext i32 %number to i64')}, 6")
    words = [text.bswap(word) for word in _transposed(text, [_block(text, row, place) for row in rows])]
    ends = text(f"icmp eq {_WORDS} {text.everywhere('%following')}, {blocks}")
    words[14] = text.choose(ends, high, words[14])
    words[15] = text.choose(ends, low, words[15])
    goes_on = text(f"icmp ult {_WORDS} {text.everywhere('%number')}, {blocks}")
    for name, new in zip(state, _compressed(text, state, words), strict=True):
        text.do(f"{name}new = select <{LANES} x i1> {goes_on}, {_WORDS} {text.add(name, new)}, {_WORDS} {name}")
    text.do(f"br i1 {text(f'icmp ult i32 %following, {most}')}, label %block, label %store")

    text.label("store")
    _store(text, rows, [text.bswap(f"{name}new") for name in state])
    text.do(f"%next = add i64 %base, {LANES}")
    text.do(f"br i1 {text('icmp ult i64 %next, %rows')}, label %group, label %done")
    text.label("done")
    text.do("ret void")
    return _HEAD + text.whole() + _TAIL


class _Text:
    """Lines of a function; what an instruction gives has a name of its own."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, instruction: str) -> str:
        name = f"%v{len(self._lines)}"
        self.do(f"{name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        self._lines.append(f"  {instruction}\n")

    def label(self, name: str) -> None:
        self._lines.append(f"{name}:\n")

    def whole(self) -> str:
        return "".join(self._lines)

    def add(self, *values: str) -> str:
        return self._folded("add", values)

    def xor(self, *values: str) -> str:
        return self._folded("xor", values)

    def both(self, left: str, right: str) -> str:
        return self(f"and {_WORDS} {left}, {right}")

    def either(self, left: str, right: str) -> str:
        return self(f"or {_WORDS} {left}, {right}")

    def right(self, value: str, bits: int) -> str:
        return self(f"lshr {_WORDS} {value}, {_splat(bits)}")

    def rotated(self, value: str, bits: int) -> str:
        return self(f"call {_WORDS} @llvm.fshr.v16i32({_WORDS} {value}, {_WORDS} {value}, {_WORDS} {_splat(bits)})")

    def bswap(self, value: str) -> str:
        return self(f"call {_WORDS} @llvm.bswap.v16i32({_WORDS} {value})")

    def choose(self, where: str, yes: str, no: str) -> str:
        return self(f"select <{LANES} x i1> {where}, {_WORDS} {yes}, {_WORDS} {no}")

    def everywhere(self, scalar: str) -> str:
        first = self(f"insertelement {_WORDS} poison, i32 {scalar}, i32 0")
        return self.shuffled(first, "poison", [0] * LANES)

    def shuffled(self, left: str, right: str, places: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {place}" for place in places)
        return self(f"shufflevector {_WORDS} {left}, {_WORDS} {right}, <{len(places)} x i32> <{mask}>")

    def _folded(self, operation: str, values: Sequence[str]) -> str:
        value = values[0]
        for other in values[1:]:
            value = self(f"{operation} {_WORDS} {value}, {other}")
        return value


class _Row:
    """Names of a lane's number among the rows, of its first byte and of its length."""

    def __init__(self, index: str, start: str, length: str) -> None:
        self.index, self.start, self.length = index, start, length


def _row(text: _Text, lane: int) -> _Row:
    """A lane of the last group that has no row of its own does the last row once more."""
    index = text(f"add i64 %base, {lane}")
    index = text(f"select i1 {text(f'icmp ult i64 {index}, %rows')}, i64 {index}, i64 {text('sub i64 %rows, 1')}")
    start = text(f"load i64, ptr {text(f'getelementptr i64, ptr %starts, i64 {index}')}")
    end = text(f"load i64, ptr {text(f'getelementptr i64, ptr %ends, i64 {index}')}")
    return _Row(index, text(f"getelementptr i8, ptr %data, i64 {start}"), text(f"sub i64 {end}, {start}"))


def _vector(text: _Text, scalars: Sequence[str]) -> str:
    vector = "poison"
    for lane, scalar in enumerate(scalars):
        vector = text(f"insertelement {_WIDE} {vector}, i64 {scalar}, i32 {lane}")
    return vector


def _blocks(text: _Text, lengths: str) -> str:
    """Blocks of each message: its bytes, one more with a bit set, and eight with the length."""
    return text(f"lshr {_WIDE} {text(f'add {_WIDE} {lengths}, {_wide(72)}')}, {_wide(6)}")


def _block(text: _Text, row: _Row, place: str) -> str:
    """64 bytes of a message from ``place`` on, followed by the bit and zeros where it ends before."""
    left = text(f"sub i64 {row.length}, {place}")
    some = text(f"call i64 @llvm.smax.i64(i64 {left}, i64 0)")
    after = text(f"shl i64 1, {text(f'and i64 {some}, 63')}")
    mask = text(f"select i1 {text(f'icmp uge i64 {some}, 64')}, i64 -1, i64 {text(f'sub i64 {after}, 1')}")
    # A message that has ended is looked for at its beginning: far behind it there may be no memory, and that is slow.
    near = text(f"select i1 {text(f'icmp sgt i64 {left}, 0')}, i64 {place}, i64 0")
    at = text(f"getelementptr i8, ptr {row.start}, i64 {near}")
    text.do(
        f"call void @llvm.prefetch.p0(ptr {text(f'getelementptr i8, ptr {at}, i64 {_AHEAD}')}, i32 0, i32 3, i32 1)"
    )
    bytes_ = text(
        f"call {_BYTES} @llvm.masked.load.v64i8.p0(ptr {at}, i32 1, {_BITS} {_as_bits(text, mask)}, "
        f"{_BYTES} zeroinitializer)"
    )
    # Without a sign: neither of those that go on nor of those that ended a block ago.
    bit = text(f"select i1 {text(f'icmp ult i64 {left}, 64')}, i64 {after}, i64 0")
    ones = "<" + ", ".join(["i8 128"] * 64) + ">"
    padded = text(f"select {_BITS} {_as_bits(text, bit)}, {_BYTES} {ones}, {_BYTES} {bytes_}")
    return text(f"bitcast {_BYTES} {padded} to {_WORDS}")


def _as_bits(text: _Text, mask: str) -> str:
    return text(f"bitcast i64 {mask} to {_BITS}")


def _transposed(text: _Text, rows: Sequence[str]) -> list[str]:
    """Columns of sixteen vectors of sixteen: halves change places at each of four distances."""
    now = list(rows)
    for step in (1, 2, 4, 8):
        low = [k if not k & step else LANES + (k ^ step) for k in range(LANES)]
        high = [k | step if not k & step else LANES + k for k in range(LANES)]
        for i in (i for i in range(LANES) if not i & step):
            a, b = now[i], now[i | step]
            now[i], now[i | step] = text.shuffled(a, b, low), text.shuffled(a, b, high)
    return now


def _compressed(text: _Text, state: Sequence[str], block: Sequence[str]) -> list[str]:
    """The working variables after the rounds; their names are those of the standard."""
    a, b, c, d, e, f, g, h = state
    words = list(block)
    for number in range(_ROUNDS):
        if number >= LANES:
            words[number % LANES] = _scheduled(text, words, number)
        big1 = text.xor(text.rotated(e, 6), text.rotated(e, 11), text.rotated(e, 25))
        chosen = text.xor(g, text.both(e, text.xor(f, g)))
        one = text.add(h, text.add(words[number % LANES], _splat(_CONSTANTS[number])), big1, chosen)
        big0 = text.xor(text.rotated(a, 2), text.rotated(a, 13), text.rotated(a, 22))
        # In these words, since the compiler knows them as one instruction.
        majority = text.either(text.both(a, b), text.both(c, text.either(a, b)))
        two = text.add(big0, majority)
        a, b, c, d, e, f, g, h = text.add(one, two), a, b, c, text.add(d, one), e, f, g
    return [a, b, c, d, e, f, g, h]


def _scheduled(text: _Text, words: Sequence[str], number: int) -> str:
    x, y = words[(number - 15) % LANES], words[(number - 2) % LANES]
    small0 = text.xor(text.rotated(x, 7), text.rotated(x, 18), text.right(x, 3))
    small1 = text.xor(text.rotated(y, 17), text.rotated(y, 19), text.right(y, 10))
    return text.add(words[number % LANES], small0, words[(number - 7) % LANES], small1)


def _store(text: _Text, rows: Sequence[_Row], state: Sequence[str]) -> None:
    for row, words in zip(rows, _transposed(text, [*state, *["zeroinitializer"] * (LANES - _STATE)]), strict=True):
        digest = text.shuffled(words, "poison", range(_STATE))
        at = text(f"getelementptr i8, ptr %digests, i64 {text(f'shl i64 {row.index}, 5')}")
        text.do(f"store <{_STATE} x i32> {digest}, ptr {at}, align 1")


def _splat(value: int) -> str:
    return "<" + ", ".join([f"i32 {value}"] * LANES) + ">"


def _wide(value: int) -> str:
    return "<" + ", ".join([f"i64 {value}"] * LANES) + ">"


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _cube_root(number: int) -> int:
    """The largest integer whose cube is not larger."""
    low, high = 0, 1 << (number.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= number else (low, middle)
    return low


# The first 32 bits of the fractions of square and cube roots of primes (section 5.3.3 and 4.2.2).
_FIRST = [isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(_STATE)]
_CONSTANTS = [_cube_root(prime << 96) & 0xFFFFFFFF for prime in _primes(_ROUNDS)]
