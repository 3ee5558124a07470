"""What may be recorded: inputs, messages of hooks and results with media."""

import pytest
from harness.media import BMP, HEIC, JPEG, PDF, PNG
from harness.stores import plain

from minideep import (
    Agent,
    AssistantMessage,
    Citation,
    ConfigError,
    Document,
    Image,
    MemoryCheckpointer,
    Middleware,
    Text,
    ToolCall,
    ToolContext,
    Turn,
    UserMessage,
    tool,
)
from minideep.content import checked_message
from minideep.models import ScriptedModel

REMEDY = "models take PNG, JPEG, GIF, WebP and HEIC: convert it to one of them"


@pytest.mark.parametrize("data", [BMP, b"no image", b""])
@pytest.mark.parametrize("wrapped", [list, UserMessage], ids=["blocks", "message"])
async def test_an_input_with_an_image_that_no_model_takes_is_refused_and_nothing_is_recorded(data, wrapped):
    store = MemoryCheckpointer()
    agent = Agent("offline:", checkpointer=store)
    with pytest.raises(ConfigError, match=f"the input holds an image .*; {REMEDY}"):
        await agent.run(wrapped((Text("Look."), Image(data))), "t")
    assert plain(store).keys("", "\x7f") == []


async def test_a_wrong_label_is_corrected_before_it_is_recorded():
    agent = Agent(ScriptedModel(["ok"]))
    given = (Text("Look."), Image(JPEG, "image/png"), Image(HEIC), Document(PDF, "application/octet-stream"))
    turn = await agent.run(given, "t")
    right = (Text("Look."), Image(JPEG, "image/jpeg"), Image(HEIC, "image/heic"), Document(PDF))
    assert turn.messages[0].content == agent.get_state("t").messages[0].content == right


@tool
async def photo(kind: str) -> tuple:
    """Take a photo."""
    return Text("Here."), Image({"jpeg": JPEG, "bmp": BMP}[kind])


async def test_an_image_of_a_tool_gets_its_type_or_becomes_an_error_for_the_model():
    script = [[ToolCall("photo", {"kind": "jpeg"}), ToolCall("photo", {"kind": "bmp"})], "ok"]
    turn = await Agent(ScriptedModel(script), [photo]).run("go")
    right, wrong = turn.messages[2:4]
    assert right.content == (Text("Here."), Image(JPEG, "image/jpeg"))
    assert (wrong.is_error, turn.text) == (True, "ok")
    assert wrong.text == f"the tool answered with an image of type image/bmp; {REMEDY}. It begins: Here."


class Shows(Middleware):
    def __init__(self, data):
        self.data = data

    async def before_finish(self, ctx):
        if ctx.state.messages[-2].text == "go":
            return UserMessage((Image(self.data),))
        return None


async def test_an_image_in_a_message_of_a_hook_gets_its_type_or_the_turn_fails_naming_the_hook():
    turn = await Agent(ScriptedModel(["one", "two"]), middleware=[Shows(JPEG)]).run("go")
    assert (turn.text, turn.messages[2].content) == ("two", (Image(JPEG, "image/jpeg"),))
    turn = await Agent(ScriptedModel(["one", "two"]), middleware=[Shows(BMP)]).run("go")
    assert (turn.status, turn.reason) == ("failed", "MiddlewareError")
    assert str(turn.error) == f"Shows.before_finish returned an image of type image/bmp; {REMEDY}"


async def test_an_image_for_a_subagent_is_checked_like_an_input():
    helper = Agent(ScriptedModel(["seen"]))

    @tool
    async def show(ctx: ToolContext) -> str:
        """Show it to another agent."""
        return (await ctx.run(helper, [Image(BMP)])).text

    turn = await Agent(ScriptedModel([ToolCall("show"), "ok"]), [show]).run("go")
    assert turn.messages[2].text == f"show failed: ConfigError: the input holds an image of type image/bmp; {REMEDY}"


def test_an_input_of_right_blocks_is_kept_as_it_is():
    said = (Text("é", (Citation("https://e.example"),)), Image(PNG))
    assert checked_message(said) == UserMessage(said)


async def test_what_utf_8_cannot_encode_is_escaped_in_citations_too():
    cited = Text("a", (Citation("\ud800", "\ud801", "\ud802", 0, 1, "p", b"{}"),))
    turn = await Agent(ScriptedModel([AssistantMessage((cited,))])).run("go", "t")
    assert (turn.status, turn.saved) == ("ended", True)
    assert turn.citations == (Citation("\\ud800", "\\ud801", "\\ud802", 0, 1, "p", b"{}"),)


async def test_a_turn_has_the_sources_of_its_last_text_in_their_order():
    first, second, third = (Citation(f"https://{name}.example") for name in "abc")
    looked = AssistantMessage((Text("I look.", (first,)), ToolCall("photo", {"kind": "jpeg"})))
    found = AssistantMessage((Text("One", (second,)), Text(" and "), Text("two.", (third, first))))
    turn = await Agent(ScriptedModel([looked, found, "And so on."]), [photo]).run("go", "t")
    assert (turn.text, turn.citations) == ("One and two.", (second, third, first))
    assert Turn.from_json(turn.json()) == turn
    assert (await Agent(ScriptedModel(["Plain."])).run("go")).citations == ()
