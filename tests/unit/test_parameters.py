"""What was read from a function is used again only where the same would be read."""

import gc
import threading
import weakref
from functools import wraps
from typing import Any

import pytest

from minideep import ConfigError, Tool, ToolCall, ToolContext


def given_types(tool):
    return {name: about.get("type") for name, about in tool.schema["properties"].items()}


def made_by_one_def(kind, default):
    async def look(place: kind, more: kind = default) -> str:
        """Look."""
        return str(place)

    return look


def test_functions_of_one_def_may_take_other_types_and_have_other_defaults():
    whole, text = Tool(made_by_one_def(int, 1)), Tool(made_by_one_def(str, "x"))
    again = Tool(made_by_one_def(int, 2))
    assert [given_types(tool) for tool in (whole, text, again)] == [
        {"place": kind, "more": kind} for kind in ("integer", "string", "integer")
    ]
    assert [tool.schema["properties"]["more"]["default"] for tool in (whole, text, again)] == [1, "x", 2]
    assert again.bind(ToolCall("look", {"place": 5}), None) == {"place": 5, "more": 2}


def test_what_is_set_on_a_function_afterwards_counts():
    def look(place: str, *, more: int = 1) -> str:
        """Look."""
        return place

    assert given_types(Tool(look)) == {"place": "string", "more": "integer"}
    look.__annotations__["place"] = int
    assert given_types(Tool(look)) == {"place": "integer", "more": "integer"}
    look.__kwdefaults__["more"] = 7
    assert Tool(look).schema["properties"]["more"]["default"] == 7
    look.__defaults__ = (3,)
    assert Tool(look).schema.get("required", []) == []
    look.__doc__ = "Look again."
    assert Tool(look).description == "Look again."
    del look.__annotations__["more"]
    with pytest.raises(ConfigError, match="parameter 'more' of its function has no type hint"):
        Tool(look)


def test_a_name_in_the_text_of_an_annotation_stands_for_what_it_is_now():
    code = compile("def look(place: 'Place', places: list['Place']) -> None:\n    'Look.'", "text", "exec")
    names: dict[str, Any] = {"Place": int}
    exec(code, names)
    assert given_types(Tool(names["look"]))["place"] == "integer"
    names["Place"] = str
    tool = Tool(names["look"])
    assert given_types(tool)["place"] == tool.schema["properties"]["places"]["items"]["type"] == "string"


def logged(function):
    @wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def test_functions_below_one_decorator_keep_their_own_parameters():
    for default in ("x", "y", "x"):
        tool = Tool(logged(made_by_one_def(str, default)))
        assert tool.schema["properties"]["more"]["default"] == default


class Desk:
    def look(self: Any, place: str) -> str:
        """Look at the desk."""
        return place


class Table(Desk):
    def look(self: Any, place: str) -> str:
        return super().look(place)


def test_a_method_and_its_plain_function_differ_by_self():
    assert given_types(Tool(Desk().look)) == {"place": "string"}
    assert list(Tool(Desk.look).schema["properties"]) == ["self", "place"]
    assert given_types(Tool(Desk().look)) == {"place": "string"}
    assert Tool(Table().look).description == "Look at the desk."


def test_each_tool_has_a_schema_of_its_own():
    def look(place: str) -> str:
        """Look."""
        return place

    first, second = Tool(look), Tool(look)
    first.schema["properties"]["place"]["description"] = "where"
    assert second.schema["properties"]["place"] == Tool(look).schema["properties"]["place"] == {"type": "string"}
    assert first.schema is first.schema


def test_a_parameter_of_the_run_is_no_matter_of_the_model():
    def make():
        def look(ctx: ToolContext, place: str) -> str:
            """Look."""
            return place

        return look

    for _ in range(2):
        tool = Tool(make())
        assert given_types(tool) == {"place": "string"}
        assert tool.bind(ToolCall("look", {"place": "here"}), "the context") == {"place": "here", "ctx": "the context"}


def test_nothing_that_a_function_holds_is_kept_alive():
    class Held:
        pass

    def make(held):
        def look(place: str) -> str:
            """Look."""
            return f"{place} {held}"

        return look

    held = Held()
    gone = weakref.ref(held)
    Tool(make(held))
    del held
    gc.collect()
    assert gone() is None


def test_threads_that_make_tools_of_one_def_get_each_their_own():
    wrong: list[Any] = []

    def make(kind, name):
        for _ in range(300):
            found = given_types(Tool(made_by_one_def(kind, None)))
            if found["place"] != name:
                wrong.append(found)

    kinds = {int: "integer", str: "string", bool: "boolean", float: "number"}
    threads = [threading.Thread(target=make, args=pair) for pair in kinds.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
