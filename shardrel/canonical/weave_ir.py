"""Rows whose bytes lie in several columns, put together and hashed a few at a time, as the text of LLVM functions.

What is put together never leaves the processor's cache: ``sha256_columns`` lets ``weave`` fill a small room with some
rows, column after column, gives them to ``sha256_rows`` of ``lanes_ir``, and fills it again. Each row has a slot of the
room, as long as the longest row and ``STORED`` bytes more, since so many are stored at a time.

A column is seven 64-bit numbers: where its data begins; where its 32-bit offsets begin, or 0; bytes from one row to the
next and bytes of a row, where there are no offsets; where a byte a row begins that is 0 if the row has nothing of this
column, or 0; and where the bytes begin that precede the column in every row, and how many these are. Of those, ``STORED``
can be read. Whatever offsets say, nothing is written outside of a slot: what does not fit into it is left out.
"""

from shardrel.canonical.lanes_ir import FUNCTION as HASH

FUNCTION = "sha256_columns"
FIELDS = 7
STORED = 64

TEXT = f"""
define internal void @weave(ptr %columns, i64 %count, i64 %first, i64 %rows, ptr %room, i64 %slot, ptr %starts, ptr %ends) #0 {{
entry:
  br label %clear

clear:
  %cleared = phi i64 [0, %entry], [%cleared_next, %clear]
  %slot_at = mul i64 %cleared, %slot
  %p_start = getelementptr i64, ptr %starts, i64 %cleared
  %p_first_end = getelementptr i64, ptr %ends, i64 %cleared
  store i64 %slot_at, ptr %p_start
  store i64 %slot_at, ptr %p_first_end
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
  %head_bytes = load <{STORED} x i8>, ptr %head, align 1
  %masked = icmp ne ptr %mask, null
  %varies = icmp ne ptr %offsets, null
  %headed = icmp ne i64 %head_size, 0
  %is_fixed = icmp eq ptr %offsets, null
  %eight = icmp eq i64 %width, 8
  %is_word = and i1 %is_fixed, %eight
  br label %row

row:
  %r = phi i64 [0, %column], [%r_next, %row_end]
  %i = add i64 %first, %r
  br i1 %masked, label %look, label %there

look:
  %p_there = getelementptr i8, ptr %mask, i64 %i
  %is_there = load i8, ptr %p_there
  %absent = icmp eq i8 %is_there, 0
  br i1 %absent, label %row_end, label %there

there:
  %p_end = getelementptr i64, ptr %ends, i64 %r
  %at = load i64, ptr %p_end
  %before = getelementptr i8, ptr %room, i64 %at
  br i1 %headed, label %precede, label %follow

precede:
  store <{STORED} x i8> %head_bytes, ptr %before, align 1
  br label %follow

follow:
  %target = getelementptr i8, ptr %before, i64 %head_size
  br i1 %varies, label %varying, label %fixed

varying:
  %p_from = getelementptr i32, ptr %offsets, i64 %i
  %p_to = getelementptr i32, ptr %p_from, i64 1
  %from32 = load i32, ptr %p_from
  %to32 = load i32, ptr %p_to
  %v_place = sext i32 %from32 to i64
  %v_stop = sext i32 %to32 to i64
  %v_size = sub i64 %v_stop, %v_place
  br label %measured

fixed:
  %f_place = mul i64 %i, %stride
  br label %measured

measured:
  %place = phi i64 [%v_place, %varying], [%f_place, %fixed]
  %size = phi i64 [%v_size, %varying], [%width, %fixed]
  %source = getelementptr i8, ptr %data, i64 %place
  %after_head = add i64 %at, %head_size
  %after = add i64 %after_head, %size
  %slot_begin = mul i64 %r, %slot
  %slot_end = add i64 %slot_begin, %slot_bytes
  %fits = icmp ule i64 %after, %slot_end
  br i1 %fits, label %fitting, label %row_end

fitting:
  store i64 %after, ptr %p_end
  br i1 %is_word, label %word, label %some_bytes

word:
  %one_word = load i64, ptr %source, align 1
  store i64 %one_word, ptr %target, align 1
  br label %row_end

some_bytes:
  %some = icmp sgt i64 %size, 0
  br i1 %some, label %copy, label %row_end

copy:
  %copied = phi i64 [0, %some_bytes], [%copied_next, %copy]
  %left = sub i64 %size, %copied
  %whole = icmp uge i64 %left, {STORED}
  %rest = and i64 %left, 63
  %bit = shl i64 1, %rest
  %low = sub i64 %bit, 1
  %bits = select i1 %whole, i64 -1, i64 %low
  %lanes = bitcast i64 %bits to <{STORED} x i1>
  %p_from_here = getelementptr i8, ptr %source, i64 %copied
  %p_to_there = getelementptr i8, ptr %target, i64 %copied
  %bytes = call <{STORED} x i8> @llvm.masked.load.v64i8.p0(ptr %p_from_here, i32 1, <{STORED} x i1> %lanes, <{STORED} x i8> zeroinitializer)
  store <{STORED} x i8> %bytes, ptr %p_to_there, align 1
  %copied_next = add i64 %copied, {STORED}
  %more = icmp ult i64 %copied_next, %size
  br i1 %more, label %copy, label %row_end

row_end:
  %r_next = add i64 %r, 1
  %row_more = icmp ult i64 %r_next, %rows
  br i1 %row_more, label %row, label %column_end

column_end:
  %c_next = getelementptr [{FIELDS} x i64], ptr %c, i64 1
  %last = icmp eq ptr %c_next, %end
  br i1 %last, label %leave, label %column

leave:
  ret void
}}

define void @{FUNCTION}(ptr %columns, i64 %count, i64 %rows, i64 %step, ptr %room, i64 %slot, ptr %starts, ptr %ends, ptr %digests) #0 {{
entry:
  br label %some

some:
  %first = phi i64 [0, %entry], [%first_next, %some]
  %left = sub i64 %rows, %first
  %few = call i64 @llvm.smin.i64(i64 %left, i64 %step)
  call void @weave(ptr %columns, i64 %count, i64 %first, i64 %few, ptr %room, i64 %slot, ptr %starts, ptr %ends)
  %place = shl i64 %first, 5
  %target = getelementptr i8, ptr %digests, i64 %place
  call void @{HASH}(ptr %room, ptr %starts, ptr %ends, i64 %few, ptr %target)
  %first_next = add i64 %first, %step
  %more = icmp ult i64 %first_next, %rows
  br i1 %more, label %some, label %leave

leave:
  ret void
}}
"""
