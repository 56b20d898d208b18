"""AES-GCM in one piece and in many: what was changed, cut, moved or bound to something else does not open."""

import pytest

from shardrel.trust import aead

BOUND = b"what it is for"


def test_a_piece_opens_as_it_was_sealed() -> None:
    key = aead.fresh_key()
    for data in (b"", b"data"):
        assert aead.decrypt(key, aead.encrypt(key, data, BOUND), BOUND) == data
    assert aead.encrypt(key, b"data", BOUND) != aead.encrypt(key, b"data", BOUND)


def test_every_changed_bit_of_a_piece_is_noticed() -> None:
    key = aead.fresh_key()
    sealed = aead.encrypt(key, b"data", BOUND)
    for bit in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(aead.TagError):
            aead.decrypt(key, bytes(changed), BOUND)
    for length in range(len(sealed)):
        with pytest.raises(aead.TagError):
            aead.decrypt(key, sealed[:length], BOUND)
    for other_key, other_place in ((aead.fresh_key(), BOUND), (key, BOUND + b".")):
        with pytest.raises(aead.TagError):
            aead.decrypt(other_key, sealed, other_place)


@pytest.mark.parametrize("size", [0, 1, aead.CHUNK_BYTES, aead.CHUNK_BYTES + 1, 2 * aead.CHUNK_BYTES + 5])
def test_many_pieces_open_as_they_were_sealed(size: int) -> None:
    key, data = aead.fresh_key(), bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert aead.decrypt_chunks(key, b"".join(aead.encrypt_chunks(key, data, BOUND)), BOUND) == data


def test_pieces_that_are_missing_moved_or_elsewhere_are_noticed() -> None:
    key = aead.fresh_key()
    one, two, three = aead.encrypt_chunks(key, bytes(2 * aead.CHUNK_BYTES + 5), BOUND)
    for wrong in ((one, two), (two, one, three), (one, three), (one, one, three), (one, two, three[:-1]), ()):
        with pytest.raises(aead.TagError):
            aead.decrypt_chunks(key, b"".join(wrong), BOUND)
    with pytest.raises(aead.TagError):
        aead.decrypt_chunks(key, one + two + three, BOUND + b".")


def test_a_derived_key_is_another_one_for_each_use() -> None:
    key = aead.fresh_key()
    made = {aead.derived(key, b"one"), aead.derived(key, b"two"), aead.derived(aead.fresh_key(), b"one"), key}
    assert len(made) == 4
    assert {len(one) for one in made} == {aead.KEY_BYTES}
    assert aead.derived(key, b"one") in made
