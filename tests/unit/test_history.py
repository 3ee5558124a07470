"""Histories: conversations that were held elsewhere, and the message that goes on with one."""

import pytest
from harness.media import BMP, JPEG
from harness.processes import python
from harness.stores import InstrumentedStore, plain

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    DiskCheckpointer,
    Image,
    Limits,
    MemoryCheckpointer,
    SegmentTooLarge,
    Text,
    ToolCall,
    ToolContext,
    ToolMessage,
    Usage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.checkpoint import open_store, read_page, thread_costs
from minideep.models import ScriptedModel

LOOKED = AssistantMessage((Text("I look."), ToolCall("look", {"at": 1}, "c1"), ToolCall("look", {"at": 2}, "c2")))
RESULTS = [ToolMessage("one", "c1", "look"), ToolMessage("two", "c2", "look", is_error=True)]
EARLIER = [
    UserMessage("hi"),
    AssistantMessage("hello"),
    UserMessage("look"),
    LOOKED,
    *RESULTS,
    AssistantMessage("seen"),
]
ON = UserMessage("go on")


async def test_the_model_sees_the_history_and_the_turn_is_that_of_the_last_message():
    model = ScriptedModel(["ok"])
    turn = await Agent(model).run([*EARLIER, ON], "t")
    assert list(model.requests[0].messages) == [*EARLIER, ON]
    assert (turn.text, turn.messages) == ("ok", (ON, AssistantMessage("ok")))


async def test_mappings_are_messages_too():
    model = ScriptedModel(["ok"])
    parts = [{"type": "text", "text": "go "}, {"type": "input_text", "text": "on"}]
    given = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello", "id": "x", "tool_calls": None},
    ]
    turn = await Agent(model).run([*given, {"role": "user", "content": parts}])
    assert turn.status == "ended"
    assert list(model.requests[0].messages) == [
        UserMessage("hi"),
        AssistantMessage("hello"),
        UserMessage((Text("go "), Text("on"))),
    ]


@pytest.mark.parametrize("one", [UserMessage("hi"), {"role": "user", "content": "hi"}])
async def test_a_list_of_one_message_is_that_message_on_any_thread(one):
    agent = Agent(ScriptedModel(["a", "b"]))
    await agent.run([one], "t")
    turn = await agent.run([one], "t")
    assert turn.messages[0] == UserMessage("hi")
    assert len(agent.history("t")) == 2


async def test_a_transcript_with_a_new_message_is_a_history():
    agent = Agent(ScriptedModel(["ok", "again"]))
    await agent.run([*EARLIER, ON], "t")
    said = agent.transcript("t")
    assert said == [*EARLIER, ON, AssistantMessage("ok")]
    turn = await agent.run([*said, UserMessage("and?")], "u")
    assert agent.transcript("u") == [*said, *turn.messages]


async def test_earlier_turns_are_boundaries_that_cost_nothing(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(
            ScriptedModel(["ok"]), checkpointer=store, limits=Limits(steps=1, tokens=10, cost=1.0, tool_calls=1)
        )
        turn = await agent.run([*EARLIER, ON], "t")
        assert (turn.status, turn.costs.steps, turn.costs.tool_calls) == ("ended", 1, 0)
        found = [(one.at, one.status, one.said, one.text, one.tool_calls) for one in agent.history("t")]
        assert found == [
            (1, "ended", "hi", "hello", 0),
            (2, "ended", "look", "seen", 2),
            (3, "ended", "go on", "ok", 0),
        ]
        assert agent.get_state("t", at=1).messages == EARLIER[:2]
        state = agent.get_state("t")
        assert (state.usage, state.cost, state.unpriced) == (Usage(), 0.0, 0)
        assert agent.runs("t") == []
        assert agent.fork("t", at=2, thread_id="f") == "f"
        assert agent.transcript("f") == EARLIER
        assert agent.get_state("f").status == "ended"
        assert store.verify() == []
    with DiskCheckpointer(tmp_path) as store:  # As it was saved.
        again = await Agent(ScriptedModel(["more"]), checkpointer=store).run("more", "t")
        assert again.status == "ended"
        assert [one.status for one in thread_costs(open_store(store), "t").turns] == ["ended"] * 4
        assert thread_costs(open_store(store), "t").total.usage == Usage()


async def test_a_history_is_saved_with_its_input_in_one_append():
    store = InstrumentedStore()
    saved = []

    def reply(request):
        saved.append((store.appends, list(read_page(open_store(store), "t", 0).events)))
        return "ok"

    await Agent(ScriptedModel(reply), checkpointer=store).run([*EARLIER, ON], "t")
    ((appends, events),) = saved
    assert appends == 1
    assert [type(event).__name__ for event in events] == [
        *("UserSaid", "ModelReplied", "TurnEnded"),
        *("UserSaid", "ModelReplied", "ToolReturned", "ToolReturned", "ModelReplied", "TurnEnded", "UserSaid"),
    ]


def test_a_thread_that_is_killed_right_after_its_history_goes_on(tmp_path):
    python(
        """
        import os, sys
        from minideep import Agent, AssistantMessage, DiskCheckpointer, UserMessage
        from minideep.models import ScriptedModel
        history = [UserMessage("hi"), AssistantMessage("hello"), UserMessage("go on")]
        if not os.fork():
            model = ScriptedModel(lambda request: os._exit(0))
            Agent(model, checkpointer=DiskCheckpointer(sys.argv[1])).run_sync(history, "t", key="k")
        assert os.wait()[1] == 0
        """,
        tmp_path,
    )
    with DiskCheckpointer(tmp_path) as store:
        agent = Agent(ScriptedModel(["ok"]), checkpointer=store)
        history = [UserMessage("hi"), AssistantMessage("hello"), ON]
        assert agent.get_state("t").status == "running"
        turn = agent.run_sync(history, "t", key="k")
        assert (turn.status, turn.text) == ("ended", "ok")
        assert agent.transcript("t") == [*history, AssistantMessage("ok")]
        assert agent.run_sync(history, "t", key="k").text == "ok"
        assert len(agent.transcript("t")) == 4


async def test_who_streams_or_follows_the_turn_does_not_get_the_history_again():
    agent = Agent(ScriptedModel(["a", "b"]))
    streamed = [event async for event in agent.stream([*EARLIER, ON], "s")]
    assert [type(event).__name__ for event in streamed] == ["UserSaid", "TextDelta", "ModelReplied", "TurnEnded"]
    handle = await agent.start([*EARLIER, ON], "t")
    await handle
    followed = [event.number async for event in agent.follow("t", after=handle.number)]
    assert followed == [10, 11, 12]
    assert [event.number async for event in agent.follow("t")] == [*range(1, 13)]


async def test_a_history_only_begins_a_thread():
    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel(["a", "b", "c"]), checkpointer=store)
    await agent.run("hi", "t")
    before = agent.transcript("t")
    for verb in (agent.run, agent.start):
        with pytest.raises(
            ConfigError, match="thread 't' has begun, and a history begins a thread; give the new message"
        ):
            await verb([*EARLIER, ON], "t")
    assert agent.transcript("t") == before
    assert (await agent.run("more", "t")).text == "b"


async def test_a_key_gives_the_turn_of_a_history_back_without_its_history():
    agent = Agent(ScriptedModel(["ok"]))
    turn = await agent.run([*EARLIER, ON], "t", key="k")
    again = await agent.run([*EARLIER, ON], "t", key="k")
    assert (again.text, again.messages) == ("ok", turn.messages)
    with pytest.raises(ConfigError, match="accepted with another input"):
        await agent.run([*EARLIER, UserMessage("other")], "t", key="k")


CALL = AssistantMessage((ToolCall("look", {}, "c1"),))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "the input is empty"),
        ([UserMessage("a"), AssistantMessage("b")], "must end with the message to answer, of the user; .* assistant"),
        ([UserMessage("a"), CALL, ToolMessage("r", "c1", "look")], "must end with the message to answer, .* tool"),
        ([AssistantMessage("b"), ON], "must begin with a message of the user, .* system_prompt="),
        ([{"role": "system", "content": "x"}, ON], r"input\[0\] is of the system; give its text as system_prompt="),
        ([{"role": "developer", "content": "x"}, ON], r"input\[0\] is of the system"),
        ([{"role": "bot", "content": "x"}, ON], r'input\[0\]\["role"\] must be "user" or "assistant", not .bot.'),
        ([{"content": "x"}, ON], r'input\[0\]\["role"\] must be'),
        ([{"role": "user"}, ON], r'input\[0\]\["content"\] must be text or a list of parts, not None'),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}, ON],
            r'\["content"\]\[0\] must be .*; write UserMessage',
        ),
        ([ON, {"role": "tool", "content": "x"}, ON], r"input\[1\] holds a tool call or a result; write Assistant"),
        ([ON, {"role": "assistant", "tool_calls": [{}]}, ON], r"input\[1\] holds a tool call or a result"),
        ([ON, ToolMessage("r", "c1", "look"), ON], r"input\[1\] is the result of call 'c1', which the reply before"),
        ([ON, CALL, ToolMessage("r", "c2", "look"), ON], r"input\[2\] is the result of call 'c2'"),
        ([ON, CALL, *[ToolMessage("r", "c1", "look")] * 2, ON], r"input\[3\] is the result of call 'c1'"),
        ([ON, CALL, ON, ToolMessage("r", "c1", "look"), ON], r"input\[3\] is the result of call 'c1'"),
        ([Text("a"), ON], r"input\[0\] must be a message like the others, .*; put blocks into a UserMessage"),
        ([UserMessage(" "), ON], r"input\[0\]: the input is empty"),
        ([UserMessage((Image(BMP),)), ON], r"input\[0\]: the input holds an image of type image/bmp"),
        (
            [ON, AssistantMessage((Text("x"), Image(BMP))), ON],
            r"input\[1\]: the input holds an image of type image/bmp",
        ),
        ([ON, "text"], r"input\[1\] must be a"),
        ({"role": "user", "content": "x"}, "input must be text"),
    ],
    ids=str,
)
async def test_what_is_no_history_is_refused_with_the_remedy_and_nothing_is_recorded(given, problem):
    store = MemoryCheckpointer()
    with pytest.raises(ConfigError, match=problem):
        await Agent("offline:", checkpointer=store).run(given, "t")
    assert plain(store).keys("", "\x7f") == []


async def test_messages_without_an_answer_are_cancelled_turns():
    model = ScriptedModel(["ok"])
    agent = Agent(model)
    await agent.run([UserMessage("a"), UserMessage("b"), CALL, UserMessage("c"), CALL, ON], "t")
    found = [(one.status, one.said) for one in agent.history("t")]
    assert found == [("cancelled", "a"), ("cancelled", "b"), ("cancelled", "c"), ("ended", "go on")]
    assert agent.get_state("t", at=1).detail == "the history has no answer to it"
    roles = [message.role for message in model.requests[0].messages]
    assert roles == ["user", "user", "assistant", "tool", "user", "assistant", "tool", "user"]


async def test_calls_without_results_have_not_completed():
    model = ScriptedModel(["ok"])
    await Agent(model).run([UserMessage("a"), LOOKED, RESULTS[1], AssistantMessage("seen"), ON])
    messages = list(model.requests[0].messages)
    assert messages[2].is_error
    assert messages[2].text.startswith("this call did not complete")
    assert messages[3:5] == [RESULTS[1], AssistantMessage("seen")]


async def test_replies_in_a_row_are_one_that_went_on():
    agent = Agent(ScriptedModel(["ok"]))
    await agent.run([UserMessage("a"), AssistantMessage("b"), AssistantMessage("c"), ON], "t")
    assert [(one.status, one.text) for one in agent.history("t")] == [("ended", "c"), ("ended", "ok")]


@pytest.mark.parametrize("ids", [("", ""), ("x", "x"), ("a/b", "a/b")])
async def test_calls_get_ids_of_their_own_and_results_follow_them(ids):
    first, second = (AssistantMessage((ToolCall("look", {"at": at}, id),)) for at, id in enumerate(ids))
    results = [ToolMessage(said, id, "look") for said, id in zip(("one", "two"), ids, strict=True)]
    model = ScriptedModel([ToolCall("look", {"at": 3}, ids[0] or "earlier_0"), "ok"])

    @tool
    async def look(at: int) -> str:
        """Look."""
        return "three"

    await Agent(model, [look]).run([UserMessage("a"), first, results[0], second, results[1], ON])
    messages = list(model.requests[1].messages)
    calls = [call for message in messages if message.role == "assistant" for call in message.calls]
    answers = {message.call_id: message.text for message in messages if message.role == "tool"}
    assert [answers[call.id] for call in calls] == ["one", "two", "three"]
    assert len({call.id for call in calls}) == 3


async def test_arguments_that_are_no_json_are_kept_as_a_text():
    store = MemoryCheckpointer()
    bad = AssistantMessage((ToolCall("look", b"{oops", "c1"),))
    await Agent(ScriptedModel(["ok"]), checkpointer=store).run([UserMessage("a"), bad, ON], "t")
    said = Agent("offline:", checkpointer=store).transcript("t")[1]
    assert said.calls[0].malformed == "{oops"


async def test_what_cannot_be_kept_is_refused_and_nothing_is_recorded():
    store = MemoryCheckpointer()
    with pytest.raises(SegmentTooLarge):
        await Agent("offline:", checkpointer=store).run([*EARLIER, UserMessage("x" * 17_000_000), ON], "t")
    assert plain(store).keys("", "\x7f") == []


async def test_media_and_lone_surrogates_of_a_history_are_as_those_of_an_input():
    model = ScriptedModel(["ok"])
    await Agent(model).run([UserMessage((Text("a\ud800"), Image(JPEG))), AssistantMessage("b\ud800"), ON])
    first, second, _ = model.requests[0].messages
    assert first.content == (Text("a\\ud800"), Image(JPEG, "image/jpeg"))
    assert second.text == "b\\ud800"


async def test_a_subagent_may_begin_with_a_history():
    inner = ScriptedModel(["inner"])
    child = Agent(inner, name="child", limits=Limits(tokens=10, cost=1.0))

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run(child, [*EARLIER, ON])).text

    agent = Agent(ScriptedModel([ToolCall("delegate", {}, "d"), "done"]), [delegate])
    turn = await agent.run("go", "t")
    assert (turn.text, turn.messages[2].text) == ("done", "inner")
    assert turn.costs.steps == 3
    assert agent.transcript("t", "d") == [*EARLIER, ON, AssistantMessage("inner")]
    assert [one.status for one in agent.history("t", "d")] == ["ended"] * 3


async def test_a_deep_agent_goes_on_with_a_history():
    turn = await create_deep_agent(ScriptedModel(["ok"])).run([*EARLIER, ON])
    assert turn.text == "ok"


async def test_a_blueprint_takes_no_history_but_a_list_of_one_message():
    store = MemoryCheckpointer()
    with pytest.raises(ConfigError, match="a blueprint takes no history, but one goal"):
        await Blueprint("offline:", checkpointer=store).run([*EARLIER, ON], "t")
    assert plain(store).keys("", "\x7f") == []
    turn = await Blueprint("offline:").run([{"role": "user", "content": "Write a poem"}])
    assert turn.messages[0].text == "Write a poem"
