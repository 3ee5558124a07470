import pytest

from minideep.mcp.tools import fitting_names, fitting_schema, mended


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}},
            "$defs": {"b": {}},
        },
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}, "$schema": "x", "title": "T"},
    ],
)
def test_a_schema_that_every_provider_takes_stays_as_it_is(schema):
    assert fitting_schema(schema) == (schema, "")


def test_choices_at_the_top_become_properties_and_the_description_says_which_belong_together():
    whole = {"properties": {"whole": {"type": "boolean"}}, "required": ["whole"]}
    page = {"properties": {"page": {"type": "integer"}, "line": {"type": "integer"}}, "required": ["page", "line"]}
    schema = {
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "oneOf": [page, {"$ref": "#/$defs/w"}],
    }
    fit, hint = fitting_schema({**schema, "$defs": {"w": whole}})
    assert set(fit["properties"]) == {"title", "page", "line", "whole"}
    assert (fit["type"], fit["required"], "oneOf" in fit) == ("object", ["title"], False)
    assert hint == "\nGive page, line; or whole."


def test_a_choice_of_which_one_needs_nothing_has_no_hint():
    assert fitting_schema({"anyOf": [{"required": ["a"]}, {}]}) == ({"type": "object", "properties": {}}, "")


def test_all_parts_at_the_top_are_required_together_and_the_schema_s_own_word_wins():
    part = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]}
    fit, hint = fitting_schema({"properties": {"b": {"enum": ["x"]}}, "required": ["b"], "allOf": [part, True]})
    assert fit["properties"] == {"a": {"type": "integer"}, "b": {"enum": ["x"]}}
    assert (fit["required"], hint) == (["b", "a"], "")


def test_a_required_name_without_a_property_is_not_required():
    assert fitting_schema({"required": ["gone", 3]})[0] == {"type": "object", "properties": {}}


def test_a_tool_keeps_what_is_right_and_loses_the_schema_of_its_results():
    tool = {
        "name": "a",
        "description": "Do.",
        "inputSchema": {"anyOf": [{"required": ["x"]}]},
        "outputSchema": 3,
        "_meta": {},
    }
    assert mended(tool) == {
        "name": "a", "description": "Do.\nGive x.", "inputSchema": {"type": "object", "properties": {}}, "_meta": {}
    }  # fmt: skip
    assert mended("nonsense") == {"inputSchema": {"type": "object", "properties": {}}}


def test_a_name_that_fits_is_kept_and_one_that_had_to_change_is_the_same_in_any_company():
    alone = fitting_names(["x" * 99])
    assert fitting_names(["p_a.b", "p_a_c", "x" * 99])[:2] == ["p_a_b", "p_a_c"]
    assert alone == fitting_names(["y", "x" * 99])[1:]
    assert len(alone[0]) == 64


def test_names_that_would_be_one_are_told_apart_and_the_one_that_fits_keeps_its_own():
    dotted, slashed, plain = fitting_names(["a.b", "a/b", "a_b"])
    assert plain == "a_b"
    assert len({dotted, slashed, plain}) == 3
    assert dotted == fitting_names(["a_b", "a.b"])[1]
