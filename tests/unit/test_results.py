"""What a model reads of a tool's return value: JSON where it is data, and never the address of an object."""

import collections
import dataclasses
import datetime
import decimal
import enum
import re
import types
import uuid
from pathlib import Path, PurePosixPath

import msgspec
import pydantic
import pytest

from minideep import Agent, Image, Text, ToolCall
from minideep.models import ScriptedModel
from minideep.tools import as_result


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    where: Path


class Row(msgspec.Struct):
    name: str
    made: datetime.date


class Order(pydantic.BaseModel):
    item: str
    when: datetime.date
    colour: Colour = Colour.RED


class Number:
    """As numpy's scalars and arrays are."""

    def __init__(self, value):
        self.value = value

    def tolist(self):
        return self.value


class Worded:
    def __repr__(self):
        return f"<Worded at {hex(id(self))}>"


class Silent:
    pass


DAY = datetime.date(2026, 11, 22)
ORDER = '{"item":"pen","when":"2026-11-22","colour":"red"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Order(item="pen", when=DAY), ORDER),
        ([Order(item="pen", when=DAY)], f"[{ORDER}]"),
        ({"order": Order(item="pen", when=DAY)}, f'{{"order":{ORDER}}}'),
        (Point(1, Path("/a")), '{"x":1,"where":"/a"}'),
        (Row("a", DAY), '{"name":"a","made":"2026-11-22"}'),
        (Colour.RED, "red"),
        ([Colour.RED], '["red"]'),
        (DAY, "2026-11-22"),
        (datetime.datetime(2026, 11, 22, 10, tzinfo=datetime.UTC), "2026-11-22T10:00:00Z"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({3}, "[3]"),
        (frozenset({"a"}), '["a"]'),
        (collections.deque([1, 2]), "[1,2]"),
        ({"a": 1}.keys(), '["a"]'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        (range(3), "[0,1,2]"),
        (Path("/a b"), "/a b"),
        ({"at": [PurePosixPath("/a")]}, '{"at":["/a"]}'),
        (Number(1.5), "1.5"),
        ({"mean": Number(2), "all": Number([[1, 2]])}, '{"mean":2,"all":[[1,2]]}'),
        (ValueError("no such row"), "ValueError: no such row"),
        ([KeyError("a")], "[\"KeyError: 'a'\"]"),
        (True, "true"),
        (3, "3"),
        (2**70, str(2**70)),
        ({(1, 2): "a"}, "{(1, 2): 'a'}"),
        ("\ud800", "\\ud800"),
        (Worded(), "<Worded>"),
        ([Worded()], '["<Worded>"]'),
        ({(1, 2): Worded()}, "{(1, 2): <Worded>}"),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_data_is_json_and_one_text_is_itself(value, text):
    assert as_result(value).content == text


@pytest.mark.parametrize(
    "value", [Silent(), [Silent()], {"a": {"b": Silent()}}, object(), (n for n in "ab"), [iter([1])]]
)
def test_what_has_no_text_is_the_tools_error(value):
    with pytest.raises(TypeError, match=r"it returned .*, which has no text; return text, a dict or a list") as caught:
        as_result(value)
    assert type(caught.value) is TypeError
    assert not re.search("0x[0-9a-f]", str(caught.value))


def test_a_model_reads_the_json_of_what_a_tool_returns():
    async def order() -> Order:
        """Order."""
        return Order(item="pen", when=DAY)

    turn = Agent(ScriptedModel([ToolCall("order"), "ok"]), [order]).run_sync("go")
    assert turn.messages[-2].text == ORDER


def test_bytes_that_are_text_are_that_text():
    for value in ("naïve\n".encode(), bytearray("naïve\n".encode())):
        assert as_result(value).content == "naïve\n"
    assert as_result(b"\xff\xfe").content == "//4="


def test_values_beside_blocks_are_blocks_of_text():
    image = Image(b"png", "image/png")
    assert as_result(["A chart:", image, {"points": 3}]).content == (Text("A chart:"), image, Text('{"points":3}'))
    assert as_result((image, None)).content == (image, Text("null"))
