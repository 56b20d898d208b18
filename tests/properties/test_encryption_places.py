"""What keys and files are bound to: two places are told apart exactly when they differ."""

from dataclasses import astuple, fields

from hypothesis import given, settings
from hypothesis import strategies as st

from shardrel.canonical import json
from shardrel.trust.key_encryption import Place

# Few words, so that places are equal often, and such as would run together without lengths or quotes.
TEXT = st.sampled_from(["", "a", "aa", '","', '":"', "\u00e9"])
PLACES = st.builds(Place, **{field.name: TEXT for field in fields(Place)})


@settings(deadline=None, max_examples=200)
@given(one=PLACES, other=PLACES, last=st.none() | TEXT, other_last=st.none() | TEXT)
def test_prefixes_are_equal_exactly_for_equal_places(
    one: Place, other: Place, last: str | None, other_last: str | None
) -> None:
    same = (astuple(one), last) == (astuple(other), other_last)
    assert (one.aad_prefix(last) == other.aad_prefix(other_last)) == same


@settings(deadline=None, max_examples=200)
@given(one=PLACES, other=PLACES)
def test_bindings_are_equal_exactly_for_equal_data_set_name_and_version(one: Place, other: Place) -> None:
    same = (one.dataset, one.name, one.key_version) == (other.dataset, other.name, other.key_version)
    assert (json.encode(one.binding) == json.encode(other.binding)) == same
