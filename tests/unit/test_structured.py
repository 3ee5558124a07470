"""JSON in the replies of models: bare, fenced, in prose, with comments, or none."""

import json
import time
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from minideep.datatypes import DataType
from minideep.structured import value_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
)
ANY = DataType(dict[str, Any])
VALUES = st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=4)


@given(st.text(st.characters()) | st.text('{}[]",:/*#`\\ \n\ta1', max_size=60))
def test_any_text_is_parsed_or_raises_a_value_error(text):
    with suppress(ValueError):
        value_in(text, ANY)


@given(VALUES)
def test_json_is_found_bare_in_a_fence_in_prose_and_with_comments_and_commas(value):
    text = json.dumps(value, indent=1)
    noted = "\n".join(f"{line}  // a note" for line in text.splitlines()).replace("\n}", ",\n}")
    hashed = "\n".join(f"{line} # a note" for line in text.splitlines())
    for said in (text, f"Well:\n```json\n{text}\n```\nThat is it.", f"Well: {text} That is it.", noted, hashed):
        assert value_in(said, ANY) == value
    assert value_in(f"/* a note\n */ {noted}", ANY) == value


def test_a_comment_inside_a_string_stays():
    said = '{"a": "http://x /* y */ # z ,}", // a note\n "b": "\\" // still",}'
    assert value_in(said, ANY) == {"a": "http://x /* y */ # z ,}", "b": '" // still'}


@pytest.mark.parametrize("said", ["[" * 100_000, '{"a":' * 100_000, "\ud800", "x" * 5_000_000])
def test_deep_nesting_surrogates_and_five_megabytes_of_text_are_refused(said):
    with pytest.raises(ValueError, match=r"holds no JSON|object"):
        value_in(said, ANY)


@pytest.mark.parametrize("said", ['{"a": "' + '\\"' * 6_000, "{" + "/* " * 6_000 + "}"])
def test_a_truncated_reply_is_refused_in_linear_time(said):
    began = time.process_time()
    with pytest.raises(ValueError, match=r"holds no JSON|object"):
        value_in(said, ANY)
    assert time.process_time() - began < 1  # It takes some milliseconds; it took seconds, of 100 KB minutes.


class Report(msgspec.Struct):
    title: str
    pages: int = 0
    tags: list[str] = []


class Node(msgspec.Struct):
    name: str
    below: list["Node"] = []


REPORT = DataType(Report)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ('{"title": "a"}', Report("a")),
        ('<think>{"title": "draft"}</think>\n{"title": "a", "pages": "3"}', Report("a", 3)),
        ('<think>perhaps {"title": "a"}', Report("a")),
        ('I looked at {x} and {y: 1}.\n\n{"title": "a"}\n\nThat is all {really}.', Report("a")),
        ('```json\n{"title": "draft"}\n```\nBetter:\n```json\n{"title": "a",} // final\n```', Report("a")),
        ('```python\nd = {"k": [1]}\n```\n```\n{"title": "a"}\n```', Report("a")),
        ('{"report": {"title": "a"}}', Report("a")),
        ('[{"title": "a"}]', Report("a")),
        ('{"title": "a", "tags": "one"} and an empty {}', Report("a", 0, ["one"])),
        ('```json\n{"title": "a"}', Report("a")),
        ('{"title": "a {b} [c]"}', Report("a {b} [c]")),
    ],
)
def test_the_value_that_fits_is_taken_out_of_what_models_write_round_it(said, meant):
    assert REPORT.read_text(said) == meant


def test_of_several_values_the_last_counts_and_no_part_of_one_that_fits():
    said = '{"name": "draft"} {"name": "a", "below": [{"name": "b"}, {"name": "c"}]}'
    assert DataType(Node).read_text(said) == Node("a", [Node("b"), Node("c")])


@pytest.mark.parametrize("said", ["I cannot.", '{"pages": 3}', '{"title": "cut', "null", "{}", "[]", ""])
def test_a_refusal_names_the_shape_that_is_wanted(said):
    with pytest.raises(ValueError, match=r'give JSON of this shape: \{"title": string, "pages"\?: integer') as refused:
        REPORT.read_text(said)
    assert "malformed" not in str(refused.value)


def test_a_reply_of_many_values_that_do_not_fit_is_refused_after_a_bounded_search():
    counted = []

    class Counting:
        wanted = "give something else"

        def read(self, value, /):
            counted.append(1)
            raise ValueError("it does not fit")

    with pytest.raises(ValueError, match="does not fit"):
        value_in(json.dumps([{"a": [1] * 100}] * 10_000), Counting())
    assert len(counted) < 10_000


def test_what_looks_like_a_thought_inside_of_a_text_is_a_part_of_it():
    said = {"title": "Use <think>x</think> tags"}
    for text in (json.dumps(said), json.dumps(said, indent=1), f"```json\n{json.dumps(said)}\n```"):
        assert value_in(f'<think>{{"title": "draft"}}</think>\n{text}', DataType(Report)) == Report(said["title"])


def test_a_line_break_in_a_text_need_not_be_escaped():
    assert value_in('Here: {"title": "a\nb"}', DataType(Report)) == Report("a\nb")


@pytest.mark.parametrize("between", ["\n", ", ", "\n```\n```json\n"])
def test_the_last_of_several_values_is_no_list_of_all(between):
    said = '```json\n{"title": "a"}' + between + '{"title": "b"}\n```'
    with pytest.raises(ValueError, match=r"several values, but no list of them; give JSON of this shape: \[\{"):
        value_in(said, DataType(list[Report]))
    assert value_in(said, DataType(Report)) == Report("b")
    assert value_in(f'{said} [{{"title": "c"}}]', DataType(list[Report])) == [Report("c")]
    assert value_in('It is {"title": "a"}.', DataType(list[Report])) == [Report("a")]


def test_the_last_item_of_a_list_is_no_answer_in_place_of_all():
    with pytest.raises(ValueError, match="a list of several values; give JSON of this shape"):
        value_in('[{"title": "a"}, {"title": "b"}]', DataType(Report))
    assert value_in('[1, {"title": "a"}]', DataType(Report)) == Report("a")
