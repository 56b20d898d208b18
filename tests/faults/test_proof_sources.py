"""A member index that somebody made up ends in a code or in a proof that holds, and never in anything else."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from shardrel.data.reading import stored_reading
from shardrel.drills.forge import parquet_bytes
from shardrel.errors import ErrorCode, IntegrityError
from shardrel.proofs.prove import proof_bytes, prove
from shardrel.records.descriptor import PARQUET
from shardrel.records.snapshot import MemberIndex
from shardrel.store.objects import get, get_record, put, put_record, unversioned
from shardrel.trust.key_encryption import Unlocked
from tests.support.publishing import records_table
from tests.support.release_builder import Built, a_release
from verifier.proof import check_proof


def _reversed(index: MemberIndex, built: Built) -> MemberIndex:
    return replace(index, parts=index.parts[::-1])


def _other_borders(index: MemberIndex, built: Built) -> MemberIndex:
    borders = [part.last_sample_id for part in index.parts]
    parts = [replace(part, last_sample_id=border) for part, border in zip(index.parts, borders[::-1], strict=True)]
    return replace(index, parts=tuple(parts))


def _same_borders(index: MemberIndex, built: Built) -> MemberIndex:
    return replace(index, parts=tuple(replace(part, last_sample_id="sample-") for part in index.parts))


def _parts_of_the_snapshot(index: MemberIndex, built: Built) -> MemberIndex:
    return replace(index, parts=built.snapshot.parts)


def _no_parquet(index: MemberIndex, built: Built) -> MemberIndex:
    described = unversioned(put(built.store, b"PAR1 and no more", PARQUET)[0])
    return replace(index, parts=tuple(replace(part, object=described) for part in index.parts))


def _broken_text(index: MemberIndex, built: Built) -> MemberIndex:
    table = pq.read_table(pa.BufferReader(get(built.store, index.parts[0].object)))
    broken = pa.StringArray.from_buffers(
        len(table), pa.py_buffer(np.arange(len(table) + 1, dtype=np.int32)), pa.py_buffer(b"\xff" * len(table))
    )
    data = parquet_bytes(table.set_column(0, table.schema.field(0), broken))
    first = replace(index.parts[0], object=unversioned(put(built.store, data, PARQUET)[0]))
    return replace(index, parts=(first, *index.parts[1:]))


@pytest.mark.parametrize(
    "change", [_reversed, _other_borders, _same_borders, _parts_of_the_snapshot, _no_parquet, _broken_text]
)
def test_a_member_index_in_any_other_shape_gives_a_code_or_a_proof_that_holds(change: Any) -> None:
    built = a_release()
    built.recut(20, 20)
    index = get_record(built.store, built.release.objects.member_index, MemberIndex)
    described = unversioned(put_record(built.store, change(index, built)))
    root = put_record(
        built.store, replace(built.release, objects=replace(built.release.objects, member_index=described))
    ).digest
    known = sorted(records_table(60)["id"].to_pylist())
    asked = ("a", known[0], known[25], known[25] + "x", known[59], "z")
    codes = {code for sample_id in asked if (code := _code(built, root, sample_id, known))}
    assert codes in ({ErrorCode.MEMBER_INDEX}, {ErrorCode.PARQUET_STRUCTURE})


def _code(built: Built, root: str, sample_id: str, known: list[str]) -> ErrorCode | None:
    """Code of the refusal; None where a proof was made, which then has to hold and to be true."""
    try:
        made = prove(built.store, root, sample_id, stored_reading(built.store, Unlocked()))
    except IntegrityError as err:
        return err.code
    assert check_proof(proof_bytes(made), root).count == (sample_id in known)
    return None
