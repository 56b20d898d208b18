"""Rows whose bytes lie in several columns, put together and hashed a few at a time, as the text of LLVM functions.

What is put together never leaves the processor's cache: ``sha256_columns`` lets ``weave`` fill a small room with some
rows, column after column, gives them to ``sha256_rows`` of ``lanes_ir``, and fills it again. Each row has a slot of the
room, as long as the longest row and ``STORED`` bytes more, since so many are stored at a time. Rows of as many blocks are
hashed together, which ``by_blocks`` finds; its ``kinds`` is one more than the blocks of the longest row, and 0 where all
rows have as many: then ``order`` is to name the rows of a room as they come.

A column is seven 64-bit numbers: where its data begins; where its 32-bit offsets begin, or 0; bytes from one row to the
next and bytes of a row, where there are no offsets; where a byte a row begins that is 0 if the row has nothing of this
column, or 0; and where the bytes begin that precede the column in every row, and how many these are. Of those, ``STORED``
can be read. Whatever offsets say, nothing is written outside of a slot: what does not fit into it is left out.
"""

from dataclasses import dataclass

from shardrel.canonical.lanes_ir import FUNCTION as HASH
from shardrel.canonical.lanes_ir import PADDING

FUNCTION = "sha256_columns"
FIELDS = 7
STORED = 64
_BYTES = f"<{STORED} x i8>"
_BITS = f"<{STORED} x i1>"


def functions() -> str:
    """``void sha256_columns(columns, count, rows, step, room, slot, starts, ends, order, counts, kinds, digests)``.

    There is at least one column and one row; ``room``, ``starts``, ``ends`` and ``order`` have space for ``step`` rows.
    Source of what it calls: ``lanes_ir``.
    """
    loops = [(kind, where) for kind in _KINDS for where in _HEADS]
    cases = " ".join(f"i32 {i}, label %{kind.name}_{where}.all" for i, (kind, where) in enumerate(loops))
    return (
        _COLUMNS.replace("KIND", _which_kind()).replace("CASES", cases)
        + "".join(_loop(*loop) for loop in loops)
        + _COLUMNS_END
        + _BY_BLOCKS
        + _ALL
    )


def _which_kind() -> str:
    """Names ``kind``, the number of the first loop of the column's kind."""
    fixed, varying = (len(_HEADS) * (len(WIDTHS) + more) for more in (0, 1))
    lines, before = [f"  %kind_0 = select i1 %is_varying, i32 {varying}, i32 {fixed}\n"], "%kind_0"
    for number, width in enumerate(WIDTHS):
        lines += [
            f"  %is_{width} = icmp eq i64 %exact_width, {width}\n",
            f"  %kind_{width} = select i1 %is_{width}, i32 {len(_HEADS) * number}, i32 {before}\n",
        ]
        before = f"%kind_{width}"
    return "".join(lines) + f"  %kind = add i32 {before}, 0\n"


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is done for a row, as instructions in which ``$`` stands before names of the loop and ``#`` before labels.

    Attributes:
        find: Names ``source`` and ``size`` of the bytes of row ``i``.
        copy: Stores them at ``target``, ``STORED`` of them at a time, and goes to ``done``.
    """

    name: str
    find: str
    copy: str


def _loop(kind: _Kind, where: str) -> str:
    """The loop over rows for a kind of column: nothing that is the same for all rows is asked for again."""
    precede = {_PLAIN: "", _MARKED: "  store i64 %head_word, ptr $before, align 1"}.get(
        where, f"  store {_BYTES} %head_bytes, ptr $before, align 1"
    )
    look = _LOOK if where == _MASKED else "  br label $there"
    text = f"""
#all:
  br label $row

#row:
  $r = phi i64 [0, $all], [$r_next, $done]
  $limit = phi i64 [%slot_bytes, $all], [$limit_next, $done]
  $i = add i64 %first, $r
{look}

#there:
  $p_end = getelementptr i64, ptr %ends, i64 $r
  $at = load i64, ptr $p_end
  $before = getelementptr i8, ptr %room, i64 $at
{precede}
{kind.find}
  $target = getelementptr i8, ptr $before, i64 %head_size
  $after_head = add i64 $at, %head_size
  $after = add i64 $after_head, $size
  $within = icmp ule i64 $after, $limit
  $forward = icmp sge i64 $size, 0
  $fits = and i1 $within, $forward
  br i1 $fits, label $fitting, label $done

#fitting:
  store i64 $after, ptr $p_end
{kind.copy}

#done:
  $r_next = add i64 $r, 1
  $limit_next = add i64 $limit, %slot
  $more = icmp ult i64 $r_next, %rows
  br i1 $more, label $row, label %column_end
"""
    return text.replace("$", f"%{kind.name}_{where}.").replace("#", f"{kind.name}_{where}.")


_PLAIN, _MARKED, _HEADED, _MASKED = "plain", "marked", "headed", "masked"
_LOOK = """\
  $p_there = getelementptr i8, ptr %mask, i64 $i
  $is_there = load i8, ptr $p_there
  $absent = icmp eq i8 $is_there, 0
  br i1 $absent, label $done, label $there"""
_FIXED = """\
  $place = mul i64 $i, %stride
  $source = getelementptr i8, ptr %data, i64 $place
  $size = add i64 %width, 0"""
_OFFSETS = """\
  $p_from = getelementptr i32, ptr %offsets, i64 $i
  $p_to = getelementptr i32, ptr $p_from, i64 1
  $from32 = load i32, ptr $p_from
  $to32 = load i32, ptr $p_to
  $place = sext i32 $from32 to i64
  $stop = sext i32 $to32 to i64
  $source = getelementptr i8, ptr %data, i64 $place
  $size = sub i64 $stop, $place"""
_EXACTLY = """\
  $bytes = load TYPE, ptr $source, align 1
  store TYPE $bytes, ptr $target, align 1
  br label $done"""
_SEVERAL = f"""\
  br label $copy

#copy:
  $copied = phi i64 [0, $fitting], [$copied_next, $copy]
  $left = sub i64 $size, $copied
  $whole = icmp uge i64 $left, {STORED}
  $rest = and i64 $left, {STORED - 1}
  $bit = shl i64 1, $rest
  $low = sub i64 $bit, 1
  $mask = select i1 $whole, i64 -1, i64 $low
  $bits = bitcast i64 $mask to {_BITS}
  $from_here = getelementptr i8, ptr $source, i64 $copied
  $to_there = getelementptr i8, ptr $target, i64 $copied
  $bytes = call {_BYTES} @llvm.masked.load.v64i8.p0(ptr $from_here, i32 1, {_BITS} $bits, {_BYTES} zeroinitializer)
  store {_BYTES} $bytes, ptr $to_there, align 1
  $copied_next = add i64 $copied, {STORED}
  $further = icmp ult i64 $copied_next, $size
  br i1 $further, label $copy, label $done"""
# Widths that have loops of their own, as most columns of numbers and digests have them.
WIDTHS = (4, 8, 16, 32, 64)
_KINDS = [
    *(_Kind(f"exactly_{width}", _FIXED, _EXACTLY.replace("TYPE", f"<{width} x i8>")) for width in WIDTHS),
    _Kind("fixed", _FIXED, _SEVERAL),
    _Kind("varying", _OFFSETS, _SEVERAL),
]
_HEADS = (_PLAIN, _MARKED, _HEADED, _MASKED)

_COLUMNS = f"""
define internal void @weave(ptr %columns, i64 %count, i64 %first, i64 %rows, ptr %room, i64 %slot, ptr %starts, ptr %ends) #0 {{
entry:
  br label %clear

clear:
  %cleared = phi i64 [0, %entry], [%cleared_next, %clear]
  %slot_at = phi i64 [0, %entry], [%slot_next, %clear]
  %p_start = getelementptr i64, ptr %starts, i64 %cleared
  %p_first_end = getelementptr i64, ptr %ends, i64 %cleared
  store i64 %slot_at, ptr %p_start
  store i64 %slot_at, ptr %p_first_end
  %slot_next = add i64 %slot_at, %slot
  %cleared_next = add i64 %cleared, 1
  %clear_more = icmp ult i64 %cleared_next, %rows
  br i1 %clear_more, label %clear, label %begin

begin:
  %slot_bytes = sub i64 %slot, {STORED}
  %end = getelementptr [{FIELDS} x i64], ptr %columns, i64 %count
  br label %column

column:
  %c = phi ptr [%columns, %begin], [%c_next, %column_end]
  %p_offsets = getelementptr i64, ptr %c, i64 1
  %p_stride = getelementptr i64, ptr %c, i64 2
  %p_width = getelementptr i64, ptr %c, i64 3
  %p_mask = getelementptr i64, ptr %c, i64 4
  %p_head = getelementptr i64, ptr %c, i64 5
  %p_head_size = getelementptr i64, ptr %c, i64 6
  %data = load ptr, ptr %c
  %offsets = load ptr, ptr %p_offsets
  %stride = load i64, ptr %p_stride
  %width = load i64, ptr %p_width
  %mask = load ptr, ptr %p_mask
  %head = load ptr, ptr %p_head
  %head_size = load i64, ptr %p_head_size
  %head_bytes = load {_BYTES}, ptr %head, align 1
  %head_word = load i64, ptr %head, align 1
  %is_varying = icmp ne ptr %offsets, null
  %exact_width = select i1 %is_varying, i64 0, i64 %width
  %is_headed = icmp ne i64 %head_size, 0
  %is_masked = icmp ne ptr %mask, null
KIND  %is_marked = icmp ule i64 %head_size, 8
  %how_headed = select i1 %is_marked, i32 1, i32 2
  %plain_or_headed = select i1 %is_headed, i32 %how_headed, i32 0
  %where = select i1 %is_masked, i32 3, i32 %plain_or_headed
  %which = add i32 %kind, %where
  switch i32 %which, label %column_end [CASES]
"""
_COLUMNS_END = f"""
column_end:
  %c_next = getelementptr [{FIELDS} x i64], ptr %c, i64 1
  %last = icmp eq ptr %c_next, %end
  br i1 %last, label %leave, label %column

leave:
  ret void
}}
"""
# Names the place of the number of rows that have as many blocks as row ``$``.
_COUNT = f"""\
  $_p_start = getelementptr i64, ptr %starts, i64 $
  $_p_end = getelementptr i64, ptr %ends, i64 $
  $_start = load i64, ptr $_p_start
  $_end = load i64, ptr $_p_end
  $_bytes = sub i64 $_end, $_start
  $_padded = add i64 $_bytes, {PADDING}
  $_blocks = lshr i64 $_padded, 6
  $_count = getelementptr i64, ptr %counts, i64 $_blocks"""
_BY_BLOCKS = f"""
define internal void @by_blocks(ptr %starts, ptr %ends, i64 %rows, ptr %order, ptr %counts, i64 %kinds) #0 {{
entry:
  %size = shl i64 %kinds, 3
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 %size, i1 false)
  br label %count

count:
  %c = phi i64 [0, %entry], [%c_next, %count]
{_COUNT.replace("$", "%c")}
  %seen = load i64, ptr %c_count
  %seen_more = add i64 %seen, 1
  store i64 %seen_more, ptr %c_count
  %c_next = add i64 %c, 1
  %count_more = icmp ult i64 %c_next, %rows
  br i1 %count_more, label %count, label %sum

sum:
  %k = phi i64 [0, %count], [%k_next, %sum]
  %before = phi i64 [0, %count], [%before_next, %sum]
  %k_count = getelementptr i64, ptr %counts, i64 %k
  %of_k = load i64, ptr %k_count
  store i64 %before, ptr %k_count
  %before_next = add i64 %before, %of_k
  %k_next = add i64 %k, 1
  %sum_more = icmp ult i64 %k_next, %kinds
  br i1 %sum_more, label %sum, label %put

put:
  %r = phi i64 [0, %sum], [%r_next, %put]
{_COUNT.replace("$", "%r")}
  %at = load i64, ptr %r_count
  %p_order = getelementptr i64, ptr %order, i64 %at
  store i64 %r, ptr %p_order
  %at_next = add i64 %at, 1
  store i64 %at_next, ptr %r_count
  %r_next = add i64 %r, 1
  %put_more = icmp ult i64 %r_next, %rows
  br i1 %put_more, label %put, label %leave

leave:
  ret void
}}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

"""
_ALL = f"""
define void @{FUNCTION}(ptr %columns, i64 %count, i64 %rows, i64 %step, ptr %room, i64 %slot, ptr %starts, ptr %ends, ptr %order, ptr %counts, i64 %kinds, ptr %digests) #0 {{
entry:
  %sorts = icmp ne i64 %kinds, 0
  br label %some

some:
  %first = phi i64 [0, %entry], [%first_next, %hash]
  %left = sub i64 %rows, %first
  %few = call i64 @llvm.smin.i64(i64 %left, i64 %step)
  call void @weave(ptr %columns, i64 %count, i64 %first, i64 %few, ptr %room, i64 %slot, ptr %starts, ptr %ends)
  br i1 %sorts, label %sort, label %hash

sort:
  call void @by_blocks(ptr %starts, ptr %ends, i64 %few, ptr %order, ptr %counts, i64 %kinds)
  br label %hash

hash:
  %place = shl i64 %first, 5
  %target = getelementptr i8, ptr %digests, i64 %place
  call void @{HASH}(ptr %room, ptr %starts, ptr %ends, ptr %order, i64 %few, ptr %target)
  %first_next = add i64 %first, %step
  %more = icmp ult i64 %first_next, %rows
  br i1 %more, label %some, label %leave

leave:
  ret void
}}
"""
