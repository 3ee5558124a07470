"""Tools: a function, a timeout or a name that cannot work is refused when the tool or its agent is made."""

import pytest
from harness.agents import ping

from minideep import (
    Agent,
    ConfigError,
    ToolCall,
    ToolContext,
    create_deep_agent,
    tool,
)
from minideep.models import ScriptedModel
from minideep.tools import Tool


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        ("pytest.Nowhere", "its signature cannot be read: AttributeError: module 'pytest' has no attribute"),
        ("no expression", "its signature cannot be read: SyntaxError: "),
        ("1/0", "its signature cannot be read: ZeroDivisionError: "),
        ("Nowhere", "its signature cannot be read: NameError: "),
        (
            "list[int] | tuple[int]",
            "its function has a parameter of a type that JSON cannot express: Type unions may not",
        ),
        (
            "complex",
            "its function has a parameter of a type that JSON cannot express: type <class 'complex'> is not supp",
        ),
    ],
)
def test_a_function_that_has_no_schema_is_refused_in_one_line_that_names_the_tool(annotation, told):
    def odd(given):
        """Odd."""

    odd.__annotations__["given"] = annotation
    with pytest.raises(ConfigError) as refused:
        Agent(ScriptedModel([]), [odd])
    assert str(refused.value).startswith(f"tool 'odd': {told}")
    assert "\n" not in str(refused.value)


WRONG = ["5", -1, 0, 0.0, True, float("nan"), float("inf"), 1j, 10**400, []]


@pytest.mark.parametrize("timeout", WRONG, ids=[str(wrong)[:10] for wrong in WRONG])
def test_a_wrong_timeout_is_refused_when_the_tool_is_made_and_when_it_is_set(timeout):
    async def look() -> str:
        return "seen"

    with pytest.raises(ConfigError, match=r"timeout (must be|is) a number( of seconds)? above 0, or None"):
        Tool(look, timeout=timeout)
    right = Tool(look, timeout=1)
    with pytest.raises(ConfigError, match="not "):
        right.timeout = timeout
    assert right.timeout == 1


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two tools are named 'ping'"):
        Agent("offline:", [ping, ping])
    with pytest.raises(ConfigError, match="two tools are named 'ls'"):
        create_deep_agent("offline:", [tool(name="ls")(lambda: "x")])


async def test_a_context_may_be_optional():
    @tool
    async def act(text: str = "x", ctx: ToolContext | None = None) -> str:
        """Act."""
        return ctx.call_id if ctx else "no context"

    turn = await Agent(ScriptedModel([ToolCall("act", {}, "c1"), "Done."]), [act]).run("go")
    assert turn.messages[2].text == "c1"
    assert list(act.schema["properties"]) == ["text"]
