"""Only the pinned bytes are taken, under whatever gzip header."""

import gzip
from pathlib import Path

import pytest

from shardrel.errors import ErrorCode, InvalidInputError
from shardrel.lab.fashion import FASHION_MNIST, read_table
from tests.support.lab import TEST, TRAIN, make_data


def test_the_table_has_both_splits_and_every_pixel(tmp_path: Path) -> None:
    pins = make_data(tmp_path / "data")
    table = read_table(tmp_path / "data", pins)
    assert table.column("split").to_pylist() == ["train"] * TRAIN + ["test"] * TEST
    raw = gzip.decompress((tmp_path / "data" / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    assert b"".join(table.column("image").to_pylist()[TRAIN:]) == raw


def test_another_gzip_header_changes_nothing(tmp_path: Path) -> None:
    pins = make_data(tmp_path / "data")
    path = tmp_path / "data" / "train-labels-idx1-ubyte.gz"
    before = read_table(tmp_path / "data", pins)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), mtime=1504176606))
    assert read_table(tmp_path / "data", pins).equals(before)


def test_other_bytes_a_torn_file_and_no_file_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    pins = make_data(folder)
    path = folder / "train-labels-idx1-ubyte.gz"
    good = path.read_bytes()
    changed = gzip.compress(gzip.decompress(good)[:-1] + b"\x0b")
    for data, code in (
        (changed, ErrorCode.INPUT_CORRUPT),
        (good[:-9], ErrorCode.INPUT_CORRUPT),
        (None, ErrorCode.INPUT_NO_SUCH_FILE),
    ):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(InvalidInputError) as refused:
            read_table(folder, pins)
        assert refused.value.code == code


def test_made_up_files_are_not_fashion_mnist(tmp_path: Path) -> None:
    make_data(tmp_path / "data")
    with pytest.raises(InvalidInputError) as refused:
        read_table(tmp_path / "data", FASHION_MNIST)
    assert refused.value.code == ErrorCode.INPUT_CORRUPT
