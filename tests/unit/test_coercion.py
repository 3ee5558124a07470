"""What models write, read as a JSON Schema wants it; what could mean two things is left as it is."""

import json
import sys

import msgspec
import pytest
from hypothesis import given, strategies as st

from minideep.coercion import coerced, strays
from minideep.datatypes import schema_of

INT, NUMBER, BOOL, STR = ({"type": kind} for kind in ("integer", "number", "boolean", "string"))
NULL, STRS = {"type": "null"}, {"type": "array", "items": STR}
ROW = {"type": "object", "properties": {"a": INT}, "required": ["a"], "additionalProperties": False}
ROWS = {"type": "array", "items": {"type": "array", "items": INT}}
MODES = {"enum": ["files_only", "content"]}


def either(*schemas):
    return {"anyOf": list(schemas)}


def call(*required, **properties):
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


TAKEN = [
    ("10", INT, 10), (" -3 ", INT, -3), (10.0, INT, 10), ("10.0", INT, 10),
    ("2.5", NUMBER, 2.5), ("1e3", NUMBER, 1000.0), ("7", NUMBER, 7),
    ("true", BOOL, True), ("False", BOOL, False), (1, BOOL, True), (0, BOOL, False),
    (12, STR, "12"),
    ("", either(INT, NULL), None), ("null", either(INT, NULL), None), ("None", either(INT, NULL), None),
    ("5", either(INT, NULL), 5), ("", either(STRS, NULL), None),
    ('["a", "b"]', STRS, ["a", "b"]), ("a", STRS, ["a"]), (7, STRS, ["7"]), ([1, "b"], STRS, ["1", "b"]),
    ('{"a": "1"}', ROW, {"a": 1}), ([{"a": 1}], ROW, {"a": 1}),
    ({"a": 1}, {"type": "array", "items": ROW}, [{"a": 1}]),
    ('[{"a": "1"}]', {"type": "array", "items": ROW}, [{"a": 1}]),
    ('{"a": 1}', {"type": "array", "items": ROW}, [{"a": 1}]),
    (["1"], ROWS, [[1]]), ([["1", 2]], ROWS, [[1, 2]]), ([[1], 2], ROWS, [[1], [2]]), ("[[1, 2]]", ROWS, [[1, 2]]),
    (1, {"enum": ["1", "2"]}, "1"), ("in-Progress", {"enum": ["in_progress", "done"]}, "in_progress"),
    ("Files Only", MODES, "files_only"), ("content ", MODES, "content"), ("2", {"enum": [1, 2]}, 2),
    ({"filePath": "/a"}, call("file_path", file_path=STR), {"file_path": "/a"}),
    ({"file-path": "/a"}, call("file_path", file_path=STR), {"file_path": "/a"}),
    ({"a": 1, "note": None, "why": "", "more": [], "rest": {}}, ROW, {"a": 1}),
    ({"p": "/a", "n": None}, call("p", p=STR, n=INT), {"p": "/a"}),
    ({"p": "/a", "n": ""}, call("p", p=STR, n=INT), {"p": "/a"}),
    ({"arguments": {"p": "/a"}}, call("p", p=STR), {"p": "/a"}), ('{"p": "/a"}', call("p", p=STR), {"p": "/a"}),
    ({"input": '{"n": "1"}'}, call("n", n=INT), {"n": 1}),
]  # fmt: skip

LEFT = [
    ("ten", INT), ("1,000", INT), ("1.5", INT), (1.5, INT), (None, INT), ("", INT), (True, INT), ("0x10", INT), ("٣x", INT),
    ("nan", NUMBER), ("Infinity", NUMBER), ("yes", BOOL), (2, BOOL), ("", BOOL),
    (1.5, STR), (True, STR), (None, STR), (["a"], STR), ({"a": 1}, STR),
    ("a, b", STRS), ("a\nb", STRS), ("none", STRS), ("null", STRS), ("", STRS), (None, STRS), ('["a"', STRS), ([None], STRS),
    ({"a": 1, "dry_run": True}, ROW), ({"b": 1}, ROW), ({"a": "x"}, ROW), ([{"a": 1}, {"a": 2}], ROW), ("a=1", ROW),
    ("file", MODES), ("", MODES), (3, {"enum": [1, 2]}),
    ([1, 2], ROWS), ("[1, 2]", ROWS), ("1e400", NUMBER), ({"": 1}, call(_=INT)),
    ("-created", {"enum": ["created", "updated"]}), ("!created", {"enum": ["created"]}), ("C++", {"enum": ["c", "java"]}),
    ("v1.0", {"enum": ["v10", "v20"]}), ("v1-0", {"enum": ["v10"]}),
    ({"due": None, "n": "1"}, {"type": "object", "additionalProperties": INT}),
    ({"due": ""}, {"type": "object", "additionalProperties": INT}),
    ({"aB": 1, "a_b": 2, "AB": 3}, call(a_b=INT)),
    ("5", either(INT, BOOL, ROW, {"enum": ["five"]}, {"type": "array", "items": INT})),
]  # fmt: skip

FITS = [
    ("", STR), ("10", STR), ("null", either(STR, NULL)), ("", either(STR, NULL)), ("10", either(INT, STR)), ("[1]", STR),
    ('{"a": 1}', either(ROW, STR)), (None, either(INT, NULL)), ([], STRS), ({"a": 1}, ROW), ({"x": 1}, {"type": "object"}),
    ({"arguments": {"p": 1}}, call("arguments", arguments={})), (True, BOOL), (1, NUMBER), ("anything", {}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "schema", "meant"), TAKEN)
def test_a_value_with_one_reading_is_taken(value, schema, meant):
    found = coerced(value, schema)
    assert (found, json.dumps(found)) == (meant, json.dumps(meant))


@pytest.mark.parametrize(("value", "schema"), LEFT)
def test_a_value_with_no_reading_or_several_is_left_as_it_is(value, schema):
    assert coerced(value, schema) is value


@pytest.mark.parametrize(("value", "schema"), FITS)
def test_a_value_that_fits_is_never_touched(value, schema):
    assert coerced(value, schema) is value


def test_a_field_under_another_spelling_is_read_though_its_object_may_have_others():
    schema = {"type": "object", "properties": {"dry_run": BOOL, "name": STR}}
    assert coerced({"dryRun": "true", "by": "me"}, schema) == {"dry_run": True, "by": "me"}
    assert coerced({"dryRun": True}, {**schema, "additionalProperties": True}) == {"dryRun": True}
    assert coerced({"force": True, "name": 1}, schema, closed=True) == {"force": True, "name": 1}


def test_what_a_schema_says_nothing_about_is_found_at_every_level():
    row = {"type": "object", "properties": {"kind": {"const": "row"}, "a": INT}}
    table = {"type": "object", "properties": {"kind": {"const": "table"}, "rows": {"type": "array", "items": row}}}
    free = {"type": "object", "additionalProperties": row}
    one = either(row, table, NULL)
    rows = [{"a": 1}, {"a": 1, "b": 2, "c": None}]
    assert strays({"kind": "table", "rows": rows}, one) == [(rows[1], "b", row["properties"])]
    assert [name for _, name, _ in strays({"x": {"b": 1}}, free)] == ["b"]
    assert strays({"kind": "row", "a": "no number"}, one) == strays(None, one) == strays([{"b": 1}], one) == []


def test_names_and_choices_are_compared_once_each():
    names = {f"field_{number}": INT for number in range(30)}
    unknown = {f"k{number}": number for number in range(2_000)}
    words = {"enum": [f"word_{number}" for number in range(300)]}
    for value, schema in [
        ({"field_1": 1, **unknown}, call(**names)),
        (["wrd"] * 3_000, {"items": words, "type": "array"}),
    ]:
        calls = 0

        def count(frame, event, arg):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            assert coerced(value, schema) is value
        finally:
            sys.setprofile(None)
        assert calls < 500_000


class Leaf(msgspec.Struct, tag="leaf"):
    size: int = 0


class Tree(msgspec.Struct, tag="tree"):
    left: "Tree | Leaf"
    right: "Tree | Leaf | None" = None
    names: list[str] = []


def test_references_and_tagged_unions_are_followed():
    given = {"type": "tree", "left": {"type": "leaf", "size": "3"}, "right": "", "names": "oak"}
    meant = Tree(Leaf(3), None, ["oak"])
    assert msgspec.convert(coerced(given, schema_of(Tree)), Tree) == meant


def test_a_schema_that_can_be_tried_in_endless_ways_is_given_up_in_bounded_time():
    node = {"anyOf": [{"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "required": ["x"]}] * 3}
    deep = {}
    for _ in range(60):
        deep = {"next": deep}
    assert coerced(deep, {"$ref": "#/$defs/n", "$defs": {"n": node}}) is deep
    assert coerced("x", {"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}) == "x"


SCHEMAS = st.recursive(
    st.sampled_from([INT, NUMBER, BOOL, STR, NULL, MODES, {}]),
    lambda inner: (
        st.builds(either, inner, inner)
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda a, b: call("a", a=a, b_c=b), inner, inner)
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text('01truenl[]{}",:. ', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "bC", "b_c", "x"]), inner),
    max_leaves=6,
)


@given(VALUES, SCHEMAS)
def test_what_was_coerced_is_not_changed_again(value, schema):
    once = coerced(value, schema)
    assert coerced(once, schema) is once
