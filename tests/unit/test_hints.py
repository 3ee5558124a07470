"""What a tool's function may take: hints in the words of Pydantic, annotated_types and plain text, and callables."""

import dataclasses
import datetime
import enum
import functools
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest
from pydantic import Field

from minideep import Agent, ConfigError, Tool, ToolCall, ToolContext, ToolError, tool
from minideep.models import ScriptedModel


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str
    size: int


class Order(pydantic.BaseModel):
    item: str
    count: int = Field(1, ge=1, description="how many")


def about(hint, *default):
    """What a model is told of one parameter."""

    def f(x) -> None:
        """F."""

    f.__annotations__["x"] = hint
    f.__defaults__ = default or None
    made = Tool(f)
    return made.schema["properties"]["x"] | {"required": "x" in made.schema["required"]}


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (Annotated[int, Field(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (Annotated[int, Field(gt=1, lt=5)], {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 5}),
        (Annotated[int, Field(multiple_of=5)], {"type": "integer", "multipleOf": 5}),
        (Annotated[str, Field(min_length=1, max_length=9)], {"type": "string", "minLength": 1, "maxLength": 9}),
        (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[str, Field(description="where")], {"type": "string", "description": "where"}),
        (Annotated[str, Field(examples=["a"])], {"type": "string", "examples": ["a"]}),
        (Annotated[str, "where"], {"type": "string", "description": "where"}),
        (Annotated[str, msgspec.Meta(description="where")], {"type": "string", "description": "where"}),
        (Annotated[int, annotated_types.Ge(1), "how many"], {"type": "integer", "minimum": 1, "description": "how many"}),
        (Annotated[int, annotated_types.Interval(ge=1, lt=4)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 4}),
        (Annotated[list[str], annotated_types.Len(1, 3)], {"type": "array", "minItems": 1, "maxItems": 3}),
        (list[Annotated[int, Field(ge=1)]], {"type": "array", "items": {"type": "integer", "minimum": 1}}),
        (dict[str, list[Annotated[int, Field(ge=1)]]], {"type": "object"}),
        (Annotated[int, object()], {"type": "integer"}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
    ],
)  # fmt: skip
def test_bounds_and_words_of_others_reach_the_schema(hint, told):
    found = about(hint)
    assert found.pop("required")
    assert told.items() <= found.items()


def test_words_of_others_deep_inside_a_hint_are_read():
    found = about(dict[str, list[Annotated[int, Field(ge=1)]]] | None)
    assert found["anyOf"][0]["additionalProperties"]["items"] == {"type": "integer", "minimum": 1}
    found = about(Optional[list[Annotated[int, Field(ge=1)]]])  # noqa: UP045
    assert found["anyOf"][0]["items"] == {"type": "integer", "minimum": 1}


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[int | None, Field(ge=1, description="d")],
        Annotated[Optional[int], Field(ge=1, description="d")],  # noqa: UP045
    ],
)
def test_bounds_of_what_may_be_none_are_bounds_of_what_it_is_else(hint):
    assert about(hint, 5) == {
        "anyOf": [{"type": "integer", "minimum": 1, "description": "d"}, {"type": "null"}],
        "description": "d", "default": 5, "required": False,
    }  # fmt: skip


def test_a_field_may_stand_in_place_of_the_default():
    assert about(int, Field(5, ge=1)) == {"type": "integer", "minimum": 1, "default": 5, "required": False}
    assert about(int, Field(ge=1)) == {"type": "integer", "minimum": 1, "required": True}
    assert about(list[int], Field(default_factory=lambda: [1]))["default"] == [1]
    assert about(Annotated[int, Field(default=3)]) == {"type": "integer", "default": 3, "required": False}


def test_what_may_be_none_and_has_no_default_may_be_left_out():
    @tool
    def f(x: int | None, y: str | None, z: Literal["a", None]) -> str:
        """F."""
        return f"{x} {y}"

    assert f.schema["required"] == ["z"]
    assert f.bind(ToolCall("f", {"z": "a"}), None) == {"x": None, "y": None, "z": "a"}
    assert f.bind(f.normalized(ToolCall("f", {"x": "3", "y": "", "z": "A"})), None) == {"x": 3, "y": "", "z": "a"}


def test_the_bounds_hold_and_the_refusal_names_them():
    @tool
    def f(x: Annotated[int, Field(ge=1)]) -> str:
        """F."""
        return str(x)

    call = f.normalized(ToolCall("f", {"x": "0"}))
    with pytest.raises(ToolError, match=r"f: Expected `int` >= 1 - at `\$.x`; it takes x \(integer\)"):
        f.bind(call, None)


@pytest.mark.parametrize(
    ("hint", "args", "value"),
    [
        (Order, {"item": "pen", "count": 2}, Order(item="pen", count=2)),
        (Order, '{"item": "pen", "count": "2"}', Order(item="pen", count=2)),
        (Order | None, None, None),
        (list[Order], {"item": "pen"}, [Order(item="pen")]),
        (dict[str, Order], {"a": {"item": "pen"}}, {"a": Order(item="pen")}),
        (Point, {"x": "1"}, Point(1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (Row, {"name": "a", "size": "3"}, {"name": "a", "size": 3}),
        (Colour, "RED", Colour.RED),
        (Literal["fast", "slow"], "Fast", "fast"),
        (datetime.date, "2026-11-22", datetime.date(2026, 11, 22)),
        (tuple[int, str], ["1", "a"], (1, "a")),
        (set[int], ["1"], {1}),
    ],
)
async def test_a_function_gets_values_of_its_types(hint, args, value):
    got: list[Any] = []

    async def f(x) -> str:
        """F."""
        got.append(x)
        return "ok"

    f.__annotations__["x"] = hint
    turn = await Agent(ScriptedModel([ToolCall("f", {"x": args}), "ok"]), [f]).run("go")
    assert got == [value], turn.messages[-2].text


def test_a_default_that_json_cannot_express_holds_and_is_not_shown():
    nothing = object()

    def f(x: Any = nothing, where: list[str] = ["a"], order: Order = Order(item="pen")) -> str:  # noqa: B006, B008
        """F."""
        return str(x)

    made = Tool(f)
    given = made.bind(ToolCall("f", {}), None)
    assert given["x"] is nothing
    assert given["order"].item == "pen"
    given["where"].append("b")
    assert made.bind(ToolCall("f", {}), None)["where"] == ["a"]
    assert "default" not in made.schema["properties"]["x"]
    assert made.schema["properties"]["where"]["default"] == ["a"]
    assert made.schema["required"] == []


# ---- callables


class Shop:
    """Buys things."""

    def __init__(self):
        self.bought: list[str] = []

    async def __call__(self, item: str, ctx: ToolContext, count: Annotated[int, Field(ge=1)] = 1) -> str:
        self.bought += [item] * count
        return f"bought {count} {item}"

    def sell(self, item: str) -> str:
        """Sell a thing."""
        self.bought.remove(item)
        return f"sold {item}"


def send(to: str, text: str, key: str = "none") -> str:
    """Send a text."""
    return f"{to}: {text} ({key})"


def told(turn):
    return [message.text for message in turn.messages if message.role == "tool"]


async def test_objects_that_can_be_called_and_methods_and_partials_are_tools():
    shop = Shop()
    mail = functools.partial(send, key="secret")
    tools = [shop, shop.sell, mail, Tool(functools.partial(send, "me"), name="note")]
    calls = [
        ToolCall("Shop", {"item": "pen", "count": "2"}),
        ToolCall("send", {"to": "you", "text": "hi"}),
        ToolCall("note", {"text": "hi"}),
    ]
    agent = Agent(ScriptedModel([calls, ToolCall("sell", {"item": "pen"}), "ok"]), tools)
    assert told(await agent.run("go")) == ["bought 2 pen", "you: hi (secret)", "me: hi (none)", "sold pen"]
    assert [(made.name, made.description) for made in agent.spec.tool_list] == [
        ("Shop", "Buys things."), ("sell", "Sell a thing."), ("send", "Send a text."), ("note", "Send a text."),
    ]  # fmt: skip
    assert agent.spec.tools["Shop"].is_async


def test_what_a_partial_was_given_is_no_matter_of_the_model():
    made = Tool(functools.partial(functools.partial(send, key="secret"), to="me"))
    assert list(made.schema["properties"]) == ["text"]
    assert "secret" not in str(made.schema)
    assert made(text="hi") == "me: hi (secret)"
    call = made.normalized(ToolCall("send", {"text": "hi", "key": "mine"}))
    with pytest.raises(ToolError, match="it takes no 'key'"):
        made.bind(call, None)


def test_a_cached_function_is_a_tool_and_a_class_and_a_generator_are_none():
    @functools.cache
    def look(place: str) -> str:
        """Look."""
        return place

    assert list(Tool(look).schema["properties"]) == ["place"]

    class Walk:
        def __call__(self, place: str):
            """Walk."""
            yield place

    for wrong, why in (
        (Shop, "must be a function"),
        (Walk(), "must return one value, and not `yield`"),
        (Path("a"), "not"),
    ):
        with pytest.raises((ConfigError, TypeError), match=why):
            Tool(wrong)
