"""Tools: a function, a timeout or a name that cannot work is refused when the tool or its agent is made."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness.agents import ping

import minideep
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


# ---- a tool as the function it was made from


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="SHOUT", timeout=0.5)
async def shout(text: str, ctx: ToolContext) -> str:
    """Return *text* in capitals."""
    return f"{ctx}: {text.upper()}"


async def test_a_tool_is_called_as_the_function_it_was_made_from():
    assert (add(2), add(2, b=3)) == (3, 5)
    waiting = shout("hi", "anything")
    assert inspect.iscoroutine(waiting)
    assert await waiting == "anything: HI"
    with pytest.raises(TypeError, match="add"):
        add()


def test_a_tool_shows_the_name_the_docstring_and_the_signature_of_its_function():
    assert (shout.__name__, shout.__doc__, shout.__module__) == ("shout", "Return *text* in capitals.", __name__)
    assert shout.__wrapped__ is shout.function
    assert str(inspect.signature(add)) == "(a: int, b: int = 1) -> int"
    assert repr(shout) == "Tool('SHOUT')"


def test_a_tool_of_a_tool_is_another_tool_of_the_same_function():
    quiet = tool(name="whisper")(shout)
    assert (quiet.name, quiet.is_async, quiet.timeout, quiet.function) == ("whisper", True, None, shout.function)


def test_a_method_becomes_a_tool_that_is_called_without_self():
    class Desk:
        @property
        def tools(self):
            return [Tool(self.look)]

        def look(self, place: str) -> str:
            """Look."""
            return f"{place} of {type(self).__name__}"

    assert Desk().tools[0]("top") == "top of Desk"


TYPED = """
from minideep import Agent, Tool, ToolContext, tool

@tool
def add(a: int, b: int = 1) -> int:
    "Add."
    return a + b

@tool(name="say", timeout=5)
async def shout(text: str, ctx: ToolContext) -> str:
    "Shout."
    return text.upper()

number: int = add(2)
several: list[Tool] = [add, shout]
by_name: dict[str, Tool] = {one.name: one for one in several}
agent = Agent("offline:", [add, shout, *several])

async def use(ctx: ToolContext) -> str:
    return await shout("x", ctx)
"""


def test_a_type_checker_knows_what_a_tool_takes_and_returns(tmp_path):
    (tmp_path / "right.py").write_text("# pyright: strict\n" + TYPED)
    wrong = TYPED + "\nadd('x')\ntext: str = add(1)\nshout('x')\n"
    (tmp_path / "wrong.py").write_text("# pyright: strict\n" + wrong)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(minideep.__file__).parent.parent)
    found = json.loads(run.stdout)["generalDiagnostics"]
    assert [one["message"] for one in found if one["file"].endswith("right.py")] == []
    assert [one["rule"] for one in found] == ["reportArgumentType", "reportAssignmentType", "reportCallIssue"]


async def test_a_context_may_be_optional():
    @tool
    async def act(text: str = "x", ctx: ToolContext | None = None) -> str:
        """Act."""
        return ctx.call_id if ctx else "no context"

    turn = await Agent(ScriptedModel([ToolCall("act", {}, "c1"), "Done."]), [act]).run("go")
    assert turn.messages[2].text == "c1"
    assert list(act.schema["properties"]) == ["text"]
