"""JSON in the replies of models: bare, fenced, in prose, with comments, or none."""

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from minideep.structured import json_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
)
VALUES = st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=4)


@given(st.text(st.characters()) | st.text('{}[]",:/*#`\\ \n\ta1', max_size=60))
def test_any_text_is_parsed_or_raises_a_value_error(text):
    with suppress(ValueError):
        json_in(text)


@given(VALUES)
def test_json_is_found_bare_in_a_fence_in_prose_and_with_comments_and_commas(value):
    text = json.dumps(value, indent=1)
    noted = "\n".join(f"{line}  // a note" for line in text.splitlines()).replace("\n}", ",\n}")
    hashed = "\n".join(f"{line} # a note" for line in text.splitlines())
    for said in (text, f"Well:\n```json\n{text}\n```\nThat is it.", f"Well: {text} That is it.", noted, hashed):
        assert json_in(said) == value
    assert json_in(f"/* a note\n */ {noted}") == value


def test_a_comment_inside_a_string_stays():
    said = '{"a": "http://x /* y */ # z ,}", // a note\n "b": "\\" // still",}'
    assert json_in(said) == {"a": "http://x /* y */ # z ,}", "b": '" // still'}


@pytest.mark.parametrize("said", ["[" * 100_000, '{"a":' * 100_000, "\ud800", '{"a": "\ud800"}', "x" * 5_000_000])
def test_deep_nesting_surrogates_and_five_megabytes_of_text_are_refused(said):
    with pytest.raises(ValueError, match="no JSON"):
        json_in(said)


@pytest.mark.parametrize("said", ['{"a": "' + '\\"' * 6_000, "{" + "/* " * 6_000 + "}"])
def test_a_truncated_reply_is_refused_in_linear_time(said):
    began = time.process_time()
    with pytest.raises(ValueError, match="no JSON"):
        json_in(said)
    assert time.process_time() - began < 1  # It takes some milliseconds; it took seconds, of 100 KB minutes.
