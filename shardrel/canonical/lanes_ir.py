"""SHA-256 of many byte strings at once, as the text of an LLVM function. Source: FIPS 180-4, section 6.2.

A vector holds one 32-bit word of each of sixteen messages, its *lanes*, so that one instruction of AVX-512 works for
all of them. The function goes through the rows by groups of two such sets, and through the blocks of a group until its
longest message ends; a message that has ended keeps its state. Nothing is read outside of a row: the loads are masked.
"""

from collections.abc import Callable, Sequence
from math import isqrt

LANES = 16
# The rounds of one set leave much of the processor waiting; those of three do not fit into its registers at all.
_SETS = 2
GROUP = _SETS * LANES
# Bytes that are added to a message before it is cut into blocks, for one bit and its length, so that the last one counts.
PADDING = 1 + 8 + 63
FUNCTION = "sha256_rows"
# Far enough to hide the memory behind the rounds of one group; found by measuring.
_AHEAD = 2048
_STATE = 8
_ROUNDS = 64
_WORDS = f"<{LANES} x i32>"
_WIDE = f"<{LANES} x i64>"
_BYTES = "<64 x i8>"
_BITS = "<64 x i1>"
_LANE_BITS = f"<{LANES} x i1>"
_HEAD = f"""
declare {_WORDS} @llvm.fshr.v16i32({_WORDS}, {_WORDS}, {_WORDS})
declare {_WORDS} @llvm.bswap.v16i32({_WORDS})
declare i32 @llvm.vector.reduce.umax.v16i32({_WORDS})
declare i64 @llvm.vector.reduce.umin.v16i64({_WIDE})
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare {_WORDS} @llvm.x86.avx512.pternlog.d.512({_WORDS}, {_WORDS}, {_WORDS}, i32)
declare {_WORDS} @llvm.umax.v16i32({_WORDS}, {_WORDS})
declare {_BYTES} @llvm.masked.load.v64i8.p0(ptr, i32, {_BITS}, {_BYTES})
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @{FUNCTION}(ptr %data, ptr %starts, ptr %ends, ptr %order, i64 %rows, ptr %digests) #0 {{
"""
_TAIL = '}\nattributes #0 = { nounwind alignstack=64 "stackrealign" "min-legal-vector-width"="512" "prefer-vector-width"="512" }\n'


def function() -> str:
    """``void sha256_rows(data, starts, ends, order, rows, digests)``.

    ``starts`` and ``ends`` have a 64-bit place in ``data`` for each row, ``digests`` room for ``rows`` times 32 bytes.
    Rows are taken as ``order`` names them: each once, and at least one.
    """
    text = _Text()
    text.label("entry")
    for name, size in (("firsts", 8), ("lengths", 8), ("shortest", 8), ("numbers", 8), ("words", 4 * LANES)):
        text.do(f"%{name} = alloca [{GROUP * size} x i8], align 64")
    text.do("%last = sub i64 %rows, 1")
    text.do("br label %group")

    text.label("group")
    text.do("%base = phi i64 [0, %entry], [%next, %store]")
    text.do("br label %row")
    text.label("row")
    text.do("%lane = phi i64 [0, %group], [%lane_next, %row]")
    _look_up(text)
    text.do("%lane_next = add i64 %lane, 1")
    text.loop("%lane_next", GROUP, "row", "known")

    text.label("known")
    blocks = [_measured(text, lane) for lane in range(0, GROUP, LANES)]
    longest = text(f"call {_WORDS} @llvm.umax.v16i32({_WORDS} {blocks[0]}, {_WORDS} {blocks[1]})")
    text.do(f"%most = call i32 @llvm.vector.reduce.umax.v16i32({_WORDS} {longest})")
    text.do("br label %block")

    text.label("block")
    text.do("%block_number = phi i32 [0, %known], [%following, %end]")
    states = [[f"%state{number}_{i}" for i in range(_STATE)] for number in range(_SETS)]
    for state in states:
        for name, first in zip(state, FIRST, strict=True):
            text.do(f"{name} = phi {_WORDS} [{_splat(first)}, %known], [{name}.new, %end]")
    text.do("%following = add i32 %block_number, 1")
    text.do("%block_wide = zext i32 %block_number to i64")
    text.do("%place = shl i64 %block_wide, 6")
    text.do("%place_after = add i64 %place, 64")
    text.do("br label %load")
    _load(text)

    text.label("rounds")
    text.do("br label %turn")
    rounded = _rounds(text, states)
    now = text.everywhere("%block_number")
    for state, new, has in zip(states, rounded, blocks, strict=True):
        goes_on = text(f"icmp ult {_WORDS} {now}, {has}")
        for name, value in zip(state, new, strict=True):
            text.do(f"{name}.new = select {_LANE_BITS} {goes_on}, {_WORDS} {text.add(name, value)}, {_WORDS} {name}")
    text.do(f"br i1 {text('icmp ult i32 %following, %most')}, label %block, label %store")

    text.label("store")
    for number, state in enumerate(states):
        _store(text, number * LANES, [text.bswap(f"{name}.new") for name in state])
    text.do(f"%next = add i64 %base, {GROUP}")
    text.do(f"br i1 {text('icmp ult i64 %next, %rows')}, label %group, label %done")
    text.label("done")
    text.do("ret void")
    return _constants() + _HEAD + text.whole() + _TAIL


def _constants() -> str:
    numbers = ", ".join(f"i32 {constant}" for constant in CONSTANTS)
    return f"@constants = internal constant [{_ROUNDS} x i32] [{numbers}]\n"


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

    def later(self) -> Callable[[str], None]:
        """A line here whose text is known only later."""
        place = len(self._lines)
        self._lines.append("")

        def fill(instruction: str) -> None:
            self._lines[place] = f"  {instruction}\n"

        return fill

    def loop(self, number: str, end: int, again: str, after: str) -> None:
        """Go on in ``again`` while the number is below ``end``."""
        self.do(f"br i1 {self(f'icmp ult i64 {number}, {end}')}, label %{again}, label %{after}")

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

    def majority(self, *values: str) -> str:
        """One instruction, whose number says what becomes of each combination of bits."""
        three = ", ".join(f"{_WORDS} {value}" for value in values)
        return self(f"call {_WORDS} @llvm.x86.avx512.pternlog.d.512({three}, i32 232)")

    def right(self, value: str, bits: int) -> str:
        return self(f"lshr {_WORDS} {value}, {_splat(bits)}")

    def rotated(self, value: str, bits: int) -> str:
        return self(f"call {_WORDS} @llvm.fshr.v16i32({_WORDS} {value}, {_WORDS} {value}, {_WORDS} {_splat(bits)})")

    def bswap(self, value: str) -> str:
        return self(f"call {_WORDS} @llvm.bswap.v16i32({_WORDS} {value})")

    def choose(self, where: str, yes: str, no: str) -> str:
        return self(f"select {_LANE_BITS} {where}, {_WORDS} {yes}, {_WORDS} {no}")

    def everywhere(self, scalar: str) -> str:
        first = self(f"insertelement {_WORDS} poison, i32 {scalar}, i32 0")
        return self.shuffled(first, "poison", [0] * LANES)

    def shuffled(self, left: str, right: str, places: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {place}" for place in places)
        return self(f"shufflevector {_WORDS} {left}, {_WORDS} {right}, <{len(places)} x i32> <{mask}>")

    def element(self, kind: str, of: str, number: str) -> str:
        return self(f"load {kind}, ptr {self(f'getelementptr {kind}, ptr {of}, i64 {number}')}")

    def set_element(self, kind: str, of: str, number: str, value: str) -> None:
        self.do(f"store {kind} {value}, ptr {self(f'getelementptr {kind}, ptr {of}, i64 {number}')}")

    def _folded(self, operation: str, values: Sequence[str]) -> str:
        value = values[0]
        for other in values[1:]:
            value = self(f"{operation} {_WORDS} {value}, {other}")
        return value


def _look_up(text: _Text) -> None:
    """The row of a lane; one of the last group that has none of its own does the last row once more."""
    at = text(f"call i64 @llvm.umin.i64(i64 {text('add i64 %base, %lane')}, i64 %last)")
    number = text.element("i64", "%order", at)
    start, end = text.element("i64", "%starts", number), text.element("i64", "%ends", number)
    text.set_element("i64", "%numbers", "%lane", number)
    text.set_element("ptr", "%firsts", "%lane", text(f"getelementptr i8, ptr %data, i64 {start}"))
    text.set_element("i64", "%lengths", "%lane", text(f"sub i64 {end}, {start}"))


def _measured(text: _Text, lane: int) -> str:
    """Blocks of the messages of the set that begins with a lane, whose shortest length is noted."""
    lengths = _lengths(text, str(lane))
    shortest = text(f"call i64 @llvm.vector.reduce.umin.v16i64({_WIDE} {lengths})")
    text.set_element("i64", "%shortest", str(lane), shortest)
    return _blocks(text, lengths)


def _lengths(text: _Text, lane: str) -> str:
    return text(f"load {_WIDE}, ptr {text(f'getelementptr i64, ptr %lengths, i64 {lane}')}, align 64")


def _blocks(text: _Text, lengths: str) -> str:
    """Blocks of each message: its bytes, one more with a bit set, and eight with the length."""
    padded = text(f"add {_WIDE} {lengths}, {_wide(PADDING)}")
    return text(f"trunc {_WIDE} {text(f'lshr {_WIDE} {padded}, {_wide(6)}')} to {_WORDS}")


def _load(text: _Text) -> None:
    """A block of each message, one set after the other, as sixteen vectors each in memory: all are too many for registers."""
    text.label("load")
    text.do("%from = phi i64 [0, %block], [%from_next, %loaded]")
    within = text(f"icmp ule i64 %place_after, {text.element('i64', '%shortest', '%from')}")
    text.do(f"br i1 {within}, label %all, label %some")
    text.label("all")
    whole = [_whole(text, lane) for lane in range(LANES)]
    text.do("br label %loaded")
    text.label("some")
    padded = [_padded(text, lane) for lane in range(LANES)]
    text.do("br label %loaded")
    text.label("loaded")
    rows = [text(f"phi {_WORDS} [{one}, %all], [{other}, %some]") for one, other in zip(whole, padded, strict=True)]
    words = [text.bswap(word) for word in _transposed(text, rows)]
    # The last block of a message ends with its length.
    lengths = _lengths(text, "%from")
    ends = text(f"icmp eq {_WORDS} {text.everywhere('%following')}, {_blocks(text, lengths)}")
    bits = text(f"shl {_WIDE} {lengths}, {_wide(3)}")
    high = text(f"trunc {_WIDE} {text(f'lshr {_WIDE} {bits}, {_wide(32)}')} to {_WORDS}")
    words[14] = text.choose(ends, high, words[14])
    words[15] = text.choose(ends, text(f"trunc {_WIDE} {bits} to {_WORDS}"), words[15])
    for number, word in enumerate(words):
        text.set_element(_WORDS, "%words", text(f"add i64 %from, {number}"), word)
    text.do(f"%from_next = add i64 %from, {LANES}")
    text.loop("%from_next", GROUP, "load", "rounds")


def _whole(text: _Text, lane: int) -> str:
    """64 bytes of a message that goes on behind them."""
    at = text(f"getelementptr i8, ptr {text.element('ptr', '%firsts', text(f'add i64 %from, {lane}'))}, i64 %place")
    _fetch_ahead(text, at)
    return text(f"load {_WORDS}, ptr {at}, align 1")


def _padded(text: _Text, lane: int) -> str:
    """64 bytes of a message from ``place`` on, followed by the bit and zeros where it ends before."""
    number = text(f"add i64 %from, {lane}")
    left = text(f"sub i64 {text.element('i64', '%lengths', number)}, %place")
    some = text(f"call i64 @llvm.smax.i64(i64 {left}, i64 0)")
    after = text(f"shl i64 1, {text(f'and i64 {some}, 63')}")
    mask = text(f"select i1 {text(f'icmp uge i64 {some}, 64')}, i64 -1, i64 {text(f'sub i64 {after}, 1')}")
    # A message that has ended is looked for at its beginning: far behind it there may be no memory, and that is slow.
    near = text(f"select i1 {text(f'icmp sgt i64 {left}, 0')}, i64 %place, i64 0")
    at = text(f"getelementptr i8, ptr {text.element('ptr', '%firsts', number)}, i64 {near}")
    _fetch_ahead(text, at)
    bytes_ = text(
        f"call {_BYTES} @llvm.masked.load.v64i8.p0(ptr {at}, i32 1, {_BITS} {_as_bits(text, mask)}, "
        f"{_BYTES} zeroinitializer)"
    )
    # Without a sign: neither of those that go on nor of those that ended a block ago.
    bit = text(f"select i1 {text(f'icmp ult i64 {left}, 64')}, i64 {after}, i64 0")
    ones = "<" + ", ".join(["i8 128"] * 64) + ">"
    padded = text(f"select {_BITS} {_as_bits(text, bit)}, {_BYTES} {ones}, {_BYTES} {bytes_}")
    return text(f"bitcast {_BYTES} {padded} to {_WORDS}")


def _fetch_ahead(text: _Text, at: str) -> None:
    ahead = text(f"getelementptr i8, ptr {at}, i64 {_AHEAD}")
    text.do(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")


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


def _rounds(text: _Text, states: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The working variables of each set after all rounds.

    Sixteen rounds are written once for three turns and once for the last: all 64 do not fit into the cache for code.
    """
    text.label("turn")
    text.do("%round = phi i64 [0, %rounds], [%round_next, %turn]")
    variables = [[f"%variable{number}_{i}" for i in range(_STATE)] for number in range(_SETS)]
    begun = [[text.later() for _ in range(_STATE)] for _ in range(_SETS)]
    turned = _sixteen(text, variables, "%round", more=True)
    for fills, *names in zip(begun, variables, states, turned, strict=True):
        for fill, name, first, new in zip(fills, *names, strict=True):
            fill(f"{name} = phi {_WORDS} [{first}, %rounds], [{new}, %turn]")
    text.do(f"%round_next = add i64 %round, {LANES}")
    text.loop("%round_next", _ROUNDS - LANES, "turn", "end")
    text.label("end")
    return _sixteen(text, turned, str(_ROUNDS - LANES), more=False)


def _sixteen(text: _Text, states: Sequence[Sequence[str]], first: str, *, more: bool) -> list[Sequence[str]]:
    """The working variables of each set after sixteen rounds.

    A round of one set is written behind that of the other: neither waits for what the other computes.

    Args:
        first: Number of the first round.
        more: Whether other rounds follow, whose words are then put into memory.
    """
    variables = list(states)
    words = [[text.element(_WORDS, "%words", str(lane + i)) for i in range(LANES)] for lane in range(0, GROUP, LANES)]
    for i in range(LANES):
        constant = text.everywhere(text.element("i32", "@constants", text(f"add i64 {first}, {i}")))
        for number, word in enumerate(words):
            variables[number] = _round(text, variables[number], text.add(word[i], constant))
            if more:
                word[i] = _scheduled(text, word, i)
                text.set_element(_WORDS, "%words", str(number * LANES + i), word[i])
    return variables


def _round(text: _Text, variables: Sequence[str], word: str) -> list[str]:
    """The working variables after one more round; their names are those of the standard."""
    a, b, c, d, e, f, g, h = variables
    big1 = text.xor(text.rotated(e, 6), text.rotated(e, 11), text.rotated(e, 25))
    chosen = text.xor(g, text.both(e, text.xor(f, g)))
    one = text.add(h, word, big1, chosen)
    big0 = text.xor(text.rotated(a, 2), text.rotated(a, 13), text.rotated(a, 22))
    two = text.add(big0, text.majority(a, b, c))
    return [text.add(one, two), a, b, c, text.add(d, one), e, f, g]


def _scheduled(text: _Text, words: Sequence[str], number: int) -> str:
    """The word of sixteen rounds after round ``number``; ``words`` are the last sixteen, each at its place."""
    x, y = words[(number + 1) % LANES], words[(number + 14) % LANES]
    small0 = text.xor(text.rotated(x, 7), text.rotated(x, 18), text.right(x, 3))
    small1 = text.xor(text.rotated(y, 17), text.rotated(y, 19), text.right(y, 10))
    return text.add(words[number], small0, words[(number + 9) % LANES], small1)


def _store(text: _Text, first: int, state: Sequence[str]) -> None:
    """Digests of the set that begins with a lane."""
    rows = _transposed(text, [*state, *["zeroinitializer"] * (LANES - _STATE)])
    for lane, words in enumerate(rows, start=first):
        digest = text.shuffled(words, "poison", range(_STATE))
        place = text(f"shl i64 {text.element('i64', '%numbers', str(lane))}, 5")
        text.do(f"store <{_STATE} x i32> {digest}, ptr {text(f'getelementptr i8, ptr %digests, i64 {place}')}, align 1")


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
FIRST = [isqrt(prime << 64) & 0xFFFFFFFF for prime in _primes(_STATE)]
CONSTANTS = [_cube_root(prime << 96) & 0xFFFFFFFF for prime in _primes(_ROUNDS)]
