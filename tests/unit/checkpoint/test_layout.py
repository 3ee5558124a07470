"""The keys of rows: names in them are percent-encoded, as in an address of the web."""

from urllib.parse import quote, unquote

from hypothesis import given, strategies as st

from minideep.checkpoint import layout


@given(st.text(st.one_of(st.sampled_from("%/,aF2~"), st.characters(exclude_categories=["Cs"]))))
def test_names_are_encoded_and_read_as_urllib_does(name):
    assert layout.quoted(name) == quote(name, safe="")
    assert layout.unquoted(name) == unquote(name)
    assert layout.unquoted(layout.quoted(name)) == name
