"""Types that JSON is read into: of msgspec, of the standard library, of Pydantic, and JSON Schemas."""

import dataclasses
import enum
import re
from typing import Any, Literal, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest

from minideep import ConfigError
from minideep.datatypes import DataType, shape_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class OfMsgspec(msgspec.Struct):
    title: str
    count: int = 0


@dataclasses.dataclass
class OfDataclasses:
    title: str
    count: int = 0


class OfTyping(TypedDict):
    title: str
    count: int


class OfPydantic(pydantic.BaseModel):
    title: str
    count: int = pydantic.Field(0, ge=0, description="how many")


class Nested(pydantic.BaseModel):
    first: OfPydantic
    others: list[OfPydantic] = []


@dataclasses.dataclass
class Mixed:
    inner: OfPydantic
    colour: Colour
    kind: Literal["a", "b"] = "a"


SCHEMA = {
    "title": "Given",
    "type": "object",
    "properties": {"title": {"type": "string"}, "count": {"type": "integer", "minimum": 0}},
    "required": ["title"],
}


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        (OfMsgspec, OfMsgspec("a", 3)),
        (OfDataclasses, OfDataclasses("a", 3)),
        (OfTyping, {"title": "a", "count": 3}),
        (OfPydantic, OfPydantic(title="a", count=3)),
        (SCHEMA, {"title": "a", "count": 3}),
        (list[OfPydantic], [OfPydantic(title="a", count=3)]),
        (dict[str, Any], {"title": "a", "count": "3"}),
    ],
    ids=lambda kind: getattr(kind, "__name__", type(kind).__name__),
)
def test_every_kind_of_type_is_read_and_coerced(kind, meant):
    read = DataType(kind).read({"title": "a", "count": "3"})
    assert (type(read), read) == (type(meant), meant)


@pytest.mark.parametrize("kind", [OfMsgspec, OfDataclasses, OfPydantic, SCHEMA])
def test_a_field_with_a_default_is_not_dropped_for_its_spelling(kind):
    read = DataType(kind).read({"title": "a", "Count": 3, "other": 1})
    assert (read.get("count") if isinstance(read, dict) else read.count) == 3


def test_types_may_stand_inside_of_each_other():
    said = {"inner": {"title": "a"}, "colour": "RED ", "kind": "B"}
    assert DataType(Mixed).read(said) == Mixed(OfPydantic(title="a"), Colour.RED, "b")
    read = DataType(Nested).read('{"first": {"title": "a", "count": "2"}, "others": {"title": "b"}}')
    assert read == Nested(first=OfPydantic(title="a", count=2), others=[OfPydantic(title="b")])


@pytest.mark.parametrize("kind", [OfMsgspec, OfDataclasses, OfTyping, OfPydantic, Nested, Mixed, list[Nested]])
def test_a_schema_is_valid_stands_at_the_top_and_refers_to_nothing_that_is_missing(kind):
    schema = DataType(kind).schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$ref" not in schema
    read, plain = (
        DataType(kind),
        {"first": {"title": "a"}, "inner": {"title": "a"}, "colour": "red", "title": "a", "count": 1},
    )
    given = [plain] if schema["type"] == "array" else plain
    jsonschema.validate(given, schema)  # Which looks up every reference that it needs.
    assert read.read(given)


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (OfMsgspec, {"count": 1}, "missing required field `title`; give JSON of this shape: {\"title\": string, \"count\"?: integer}"),
        (OfMsgspec, {"title": "a", "count": "many"}, "got `str` - at `$.count`"),
        (OfPydantic, {"title": "a", "count": -1}, "count: Input should be greater than or equal to 0; give JSON"),
        (Nested, {"first": {}}, "first.title: Field required; give JSON"),
        (SCHEMA, {"title": "a", "count": -1}, "-1 is less than the minimum of 0 at $.count; give JSON"),
        (Mixed, {"inner": {"title": "a"}, "colour": "green"}, "Invalid enum value 'green'"),
    ],
)  # fmt: skip
def test_a_refusal_says_where_what_and_which_shape_is_wanted(kind, given, problem):
    with pytest.raises(ValueError, match=re.escape(problem)) as refused:
        DataType(kind).read(given)
    assert "http" not in str(refused.value)


@pytest.mark.parametrize("kind", [object, lambda: 1, {"type": "nonsense"}, type("Own", (), {})])
def test_what_json_cannot_express_is_refused_when_it_is_made(kind):
    with pytest.raises(ConfigError, match="JSON cannot express it"):
        DataType(kind)


def test_a_shape_is_short():
    assert shape_of(DataType(Mixed).schema) == (
        '{"inner": {"title": string, "count"?: integer}, "colour": "blue" | "red", "kind"?: "a" | "b"}'
    )
    assert (
        shape_of({"type": "object", "additionalProperties": {"type": ["integer", "null"]}})
        == "{string: integer | null}"
    )
    deep = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}}}}
    assert "any" in shape_of(deep)
