"""pull of an encrypted release: decoded with a key, as it is stored where that is asked for, else refused."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shardrel.data.pull import Pulled, pull_release
from shardrel.errors import ErrorCode, ShardrelError
from shardrel.store.objects import put_record
from shardrel.trust.key_encryption import KeyEncryption, Unlocked
from tests.support.encrypted import Encrypted, a_key, an_encrypted_release


def pull(
    built: Encrypted,
    folder: Path,
    *keys: KeyEncryption,
    root: str | None = None,
    split: str | None = None,
    ciphertext: bool = False,
) -> Pulled:
    return pull_release(
        built.store, root or built.root, folder, split=split, progress=lambda done, total: None,
        unlocked=Unlocked(keys), ciphertext=ciphertext,
    )  # fmt: skip


def rows(folder: Path) -> list[dict[str, object]]:
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("split", [None, "test"])
def test_with_its_key_the_records_are_those_of_the_plain_release(tmp_path: Path, split: str | None) -> None:
    built = an_encrypted_release()
    done = pull(built, tmp_path / "sealed", built.key, split=split)
    for name in ("train", "test") if split is None else (split,):
        pull(built, tmp_path / "plain" / name, root=plain_root(built), split=name)
    found, wanted = rows(tmp_path / "sealed"), [row for part in (tmp_path / "plain").iterdir() for row in rows(part)]
    assert done.records == len(found) == len(wanted) > 0
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def plain_root(built: Encrypted) -> str:
    return put_record(built.store, built.plain).digest


def test_as_stored_the_bytes_are_those_of_the_root(tmp_path: Path) -> None:
    built = an_encrypted_release()
    done = pull(built, tmp_path / "out", ciphertext=True)
    assert done.bytes == built.release.totals.stored_bytes
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert [file.read_bytes() for file in files] == [built.shard_bytes(number) for number in range(2)]


@pytest.mark.parametrize(("keys", "code"), [([], ErrorCode.ENCRYPTION_READER), ([a_key()], ErrorCode.ENCRYPTION_KEY)])
def test_without_its_key_nothing_is_written(tmp_path: Path, keys: list[KeyEncryption], code: ErrorCode) -> None:
    with pytest.raises(ShardrelError) as caught:
        pull(an_encrypted_release(), tmp_path / "out", *keys)
    assert caught.value.code == code
    assert not (tmp_path / "out").exists()


def test_a_split_cannot_be_told_without_a_key(tmp_path: Path) -> None:
    with pytest.raises(ShardrelError) as caught:
        pull(an_encrypted_release(), tmp_path / "out", split="test", ciphertext=True)
    assert caught.value.code == ErrorCode.INPUT_INVALID
