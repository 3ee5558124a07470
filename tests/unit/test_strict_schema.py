"""The strict form of a schema: providers take it, and what they then write is read as the type."""

import enum
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from harness.oracle.tools import held_faults, strict_faults
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from minideep.datatypes import DataType
from minideep.strict_schema import NoStrictForm, strict


class Grade(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Source(Struct):
    url: str
    page: int | None = None


class Report(Struct):
    title: Annotated[str, Meta(min_length=1, max_length=80, description="A short title.")]
    grade: Grade
    sources: list[Source]
    best: Source | None = None
    score: Annotated[int, Meta(ge=0, le=10)] = 5
    kind: Literal["news", "essay"] = "news"
    day: date = date(2026, 1, 2)
    tags: list[str] = []


@dataclass
class Point:
    x: float
    label: str = "here"


class Row(TypedDict, total=False):
    name: str
    cells: list[list[int]]


class Cat(Struct, tag="cat"):
    lives: int = 9


class Dog(Struct, tag="dog"):
    name: str


class Pets(Struct):
    pets: list[Cat | Dog]


class Page(BaseModel):
    title: str = Field(min_length=1, description="The title.")
    rank: int = Field(3, ge=0)
    points: list[Point] = []
    of: Literal["a", 1, None] = None


FULL = {
    Report: {
        "title": "t", "grade": "bad", "sources": [{"url": "u", "page": None}], "best": None, "score": None,
        "kind": None, "day": None, "tags": None,
    },
    Point: {"x": 1, "label": None},
    Row: {"name": None, "cells": [[1]]},
    Pets: {"pets": [{"type": "cat", "lives": None}, {"type": "dog", "name": "Rex"}]},
    Page: {"title": "t", "rank": None, "points": None, "of": None},
}  # fmt: skip
"""What a model writes that is held to the strict form: every property, with null for what it does not say."""


def problems(schema):
    return [*strict_faults(schema, "it"), *held_faults(schema, "it")]


@pytest.mark.parametrize("kind", FULL)
def test_providers_take_the_strict_form_and_nulls_are_read_as_the_defaults(kind):
    form = strict(DataType(kind).schema)
    assert problems(form) == []
    Draft202012Validator.check_schema(form)
    Draft202012Validator(form).validate(FULL[kind])
    value = DataType(kind).read(FULL[kind])
    if kind is Report:
        assert value == Report("t", Grade.BAD, [Source("u")])
    if kind is Pets:
        assert value == Pets([Cat(), Dog("Rex")])


def test_the_form_that_was_not_strict_would_be_refused():
    assert problems(DataType(Report).schema)


def test_what_the_form_leaves_out_stands_in_the_description():
    fields = strict(DataType(Report).schema)["properties"]
    assert fields["title"] == {"type": "string", "description": "A short title. (minLength: 1, maxLength: 80)"}
    score = {"type": "integer", "description": "(minimum: 0, maximum: 10)"}
    assert fields["score"] == {"anyOf": [score, {"type": "null"}], "description": "null: 5"}


def test_the_schema_itself_stays_as_it_is():
    schema = DataType(Report).schema
    before = msgspec.json.encode(schema)
    strict(schema)
    assert msgspec.json.encode(schema) == before


class Tree(Struct):
    leaves: "list[Tree]"


class Open(Struct):
    counts: dict[str, int]


class Wide(Struct):
    anything: Any


class Fixed(Struct):
    pair: tuple[int, str]


Many = msgspec.defstruct("Many", [(f"field_{number}", int | None) for number in range(17)])
JSON = [
    {"type": "object", "properties": {"a": True}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}}},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
    {"type": "object", "properties": {"a": {"enum": [{"x": 1}]}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "patternProperties": {"^b": {"type": "string"}}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
    {"type": "string"},
]


@pytest.mark.parametrize("kind", [Tree, Open, Wide, Fixed, Many, *JSON], ids=str)
def test_what_a_provider_would_refuse_has_no_strict_form(kind):
    with pytest.raises(NoStrictForm):
        strict(kind if isinstance(kind, dict) else DataType(kind).schema)


@pytest.mark.parametrize(
    ("part", "made"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"const": 3}, {"type": "integer", "enum": [3]}),
        ({"allOf": [{"type": "string"}], "title": "A"}, {"type": "string"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '(format: "uri")'}),
        (
            {"type": ["object", "null"], "properties": {}, "additionalProperties": False},
            {"anyOf": [
                {"type": "object", "properties": {}, "required": [], "additionalProperties": False}, {"type": "null"},
            ]},
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_of_the_users_is_said_in_the_words_that_providers_know(part, made):
    form = strict({"type": "object", "properties": {"a": part}, "required": ["a"]})
    assert form["properties"]["a"] == made
    assert problems(form) == []
