"""Tool calls: their results, failures and timeouts, and what a tool may do with its context."""

import asyncio
import threading

import pytest
from harness.agents import answers, ping, pings, results, stored

from minideep import (
    Agent,
    Image,
    Limits,
    Overloaded,
    Reply,
    Subagent,
    Text,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    create_deep_agent,
    tool,
)
from minideep.events import Noted, ToolReturned, TurnEnded, TurnEscalated
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel


async def test_results_of_parallel_calls_stand_in_call_order_whichever_ends_first():
    order = []

    @tool
    async def wait(turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        order.append(turns)
        return str(turns)

    script = [[ToolCall("wait", {"turns": n}) for n in (9, 3, 6)], "ok"]
    turn = await Agent(ScriptedModel(script), [wait]).run("go")
    assert order == [3, 6, 9]
    assert answers(turn) == ["9", "3", "6"]


async def test_an_exception_in_a_tool_is_the_error_result_of_its_call_alone(caplog):
    @tool
    async def broken() -> str:
        raise OSError("no disk")

    turn = await Agent(ScriptedModel([[*pings("a"), ToolCall("broken"), *pings("b")], "ok"]), [ping, broken]).run("go")
    assert answers(turn) == ["a", "broken failed: OSError: no disk", "b"]
    assert [message.is_error for message in results(turn)] == [False, True, False]
    assert turn.status == "ended"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("nope"), "no tool named 'nope'; there is ping"),
        (
            ToolCall("ping", {"text": [3]}),
            "ping: text must be string, not [3]; it takes text (string, optional)",
        ),
        (
            ToolCall("ping", {"txt": "x"}),
            "ping: it takes no 'txt'; did you mean 'text'?; it takes text (string, optional)",
        ),
        (ToolCall("ping", b'"text: tru"'), "ping: the arguments are not a JSON object: 'text: tru'"),
        (
            ToolCall("ping", b'"{\\"text\\": tru"'),
            "ping: the arguments break off after 12 characters: '{\"text\": tru'; write less in one call",
        ),
    ],
)
async def test_the_model_is_told_what_is_wrong_with_a_call_and_what_would_be_right(call, told):
    turn = await Agent(ScriptedModel([call, "sorry"]), [ping]).run("go")
    assert answers(turn)[0].startswith(told)
    assert results(turn)[0].is_error
    assert turn.status == "ended"


async def test_a_plain_function_runs_on_a_thread_and_may_record():
    @tool
    def work(ctx: ToolContext) -> str:
        ctx.record(Noted("work", "thread", threading.current_thread().name))
        return str(ctx.state.notes["work"]["thread"])

    turn = await Agent(ScriptedModel([ToolCall("work"), "ok"]), [work]).run("go")
    assert answers(turn) == ["minideep-tool"]


@pytest.mark.parametrize("plain", [True, False])
async def test_a_call_that_times_out_is_an_error_and_what_its_tool_does_later_is_dropped(plain):
    done, late = threading.Event(), []

    def slow(ctx: ToolContext) -> str:
        """Take long."""
        done.wait(5)
        try:
            ctx.record(Noted("slow", "late", True))
        except ToolError as exc:
            late.append(str(exc))
        return "late"

    async def slow_async(ctx: ToolContext) -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "late"

    made = tool(name="slow", timeout=0.05)(slow if plain else slow_async)
    agent = Agent(ScriptedModel([ToolCall("slow"), "ok"]), [made])
    turn = await agent.run("go", "t")
    done.set()
    assert answers(turn) == ["slow did not end within 0.05 s and was stopped; ask it for less"]
    assert turn.status == "ended"
    if plain:
        while not late:
            await asyncio.sleep(0.01)
        assert late == ["call 'call_2_0' is over; its context is closed"]
    assert agent.get_state("t").notes == {}


async def test_values_that_tools_return_become_text():
    @tool
    async def give(kind: str):
        return {
            "dict": {"a": [1, None]},
            "none": None,
            "odd": "\ud800é",
            "blocks": (Text("a"), Text("b")),
            "object": object,
        }[kind]

    script = [[ToolCall("give", {"kind": kind}) for kind in ("dict", "none", "odd", "blocks")], "ok"]
    turn = await Agent(ScriptedModel(script), [give]).run("go")
    assert answers(turn) == ['{"a":[1,null]}', "done", "\\ud800é", "ab"]


# ---- results of any size and kind


def test_a_result_over_a_million_characters_goes_into_a_file():
    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * 250_000

    agent = create_deep_agent(ScriptedModel([ToolCall("dump", {}, "c1"), "so"]), [dump])
    turn = agent.run_sync("go", "t")
    result = turn.messages[2]
    assert not result.is_error
    assert result.text.startswith("This result is too large to be shown: 2,500,000 characters")
    assert len(agent.read_file("t", "/large_tool_results/c1")) == 2_500_000


@pytest.mark.parametrize(
    ("make", "size"),
    [(Agent, 2_500_000), (Agent, 50_000_000), (create_deep_agent, 12_000_000), (create_deep_agent, 40_000_000)],
)
def test_a_result_that_fits_nowhere_is_an_error_that_shows_its_beginning(make, size):
    @tool
    async def dump() -> str:
        """Give much."""
        return "0123456789" * (size // 10)

    turn = make(ScriptedModel([ToolCall("dump", {}, "c1"), "so"]), [dump]).run_sync("go", "t")
    result = turn.messages[2]
    assert (result.is_error, turn.text) == (True, "so")
    assert result.text.startswith(f"the tool answered {size:,} characters, more than the 1,000,000 that fit")
    assert len(result.text) < 2_000


@pytest.mark.parametrize(
    "answer",
    [
        ToolResult("bad", is_error=1),
        ToolResult("bad", ends="yes"),
        ToolResult(["x"]),
        ToolResult((Image("no bytes"),)),
        ToolResult((Text(5),)),
    ],
)
async def test_a_result_that_cannot_be_kept_is_an_error_and_the_thread_loads(answer, caplog):
    @tool
    async def odd():
        """Answer oddly."""
        return answer

    agent = Agent(ScriptedModel([[ToolCall("odd"), ToolCall("ping")], "ok"]), [odd, ping])
    turn = await agent.run("go", "t")
    assert (turn.status, results(turn)[0].is_error, results(turn)[1].text) == ("ended", True, "pong")
    assert stored(agent).messages == list(turn.messages)


# ---- what a tool does with its context


@pytest.mark.parametrize("event", [ToolReturned("c", "x"), TurnEnded(1.0), "no event"])
async def test_a_tool_may_not_record_events_of_the_loop(event):
    @tool
    async def meddle(ctx: ToolContext) -> str:
        """Meddle."""
        ctx.record(event)
        return "recorded"

    turn = await Agent(ScriptedModel([ToolCall("meddle"), "ok"]), [meddle]).run("go")
    assert "is for the loop to record" in results(turn)[0].text
    assert turn.status == "ended"


@pytest.mark.parametrize("timeout", [None, 30])
async def test_tools_on_threads_record_in_parallel_and_the_log_stays_in_order(timeout):
    def note(name: str, ctx: ToolContext) -> str:
        """Take notes."""
        for number in range(200):
            ctx.record(Noted("notes", name, number, "append"))
        return "noted"

    noting = tool(name="note", timeout=timeout)(note)
    agent = Agent(ScriptedModel([[ToolCall("note", {"name": name}) for name in "abcd"], "ok"]), [noting])
    await agent.run("go", "t")
    assert stored(agent).notes == {"notes": {name: list(range(200)) for name in "abcd"}}


async def test_a_note_that_nests_too_deep_to_be_read_back_is_refused():
    @tool
    async def deep(ctx: ToolContext) -> str:
        """Note deeply."""
        value = []
        for _ in range(500):
            value = [value]
        ctx.record(Noted("me", "deep", value))
        return "noted"

    turn = await Agent(ScriptedModel([ToolCall("deep"), "ok"]), [deep]).run("go")
    assert "nests deeper than 100" in results(turn)[0].text


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), GeneratorExit(), SystemExit(3), BaseException("odd")])
@pytest.mark.parametrize("timeout", [None, 5])
async def test_whatever_a_tool_raises_is_the_error_result_of_its_call(raised, timeout, caplog):
    async def leave() -> str:
        """Leave."""
        raise raised

    leaving = tool(name="leave", timeout=timeout)(leave)
    turn = await Agent(ScriptedModel([[ToolCall("leave"), ToolCall("ping")], "ok"]), [leaving, ping]).run("go")
    assert [message.is_error for message in results(turn)] == [True, False]
    assert turn.status == "ended"


async def test_an_async_tool_may_record_from_other_threads():
    @tool
    async def threads(ctx: ToolContext) -> str:
        """Use threads."""
        await asyncio.gather(*(asyncio.to_thread(ctx.record, Noted("me", f"{n}", n)) for n in range(20)))
        return "ok"

    agent = Agent(ScriptedModel([ToolCall("threads"), "ok"]), [threads])
    await agent.run("go", "t")
    assert len(stored(agent).notes["me"]) == 20


async def test_a_tool_may_ask_the_person_a_question_and_the_next_message_answers_it():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        ctx.record(TurnEscalated(1.0, "red or blue?"))
        return "asked"

    agent = Agent(ScriptedModel([[ToolCall("ask"), ToolCall("ping")], "blue it is"]), [ask, ping])
    turn = await agent.run("paint it", "t")
    assert (turn.status, turn.question, len(results(turn))) == ("escalated", "red or blue?", 2)
    assert (await agent.run("blue", "t")).text == "blue it is"


async def test_arguments_that_are_not_json_do_not_block_the_thread():
    agent = Agent(ScriptedModel([Reply(AssistantMessage((ToolCall("ping", b"{bad"),))), "ok"]), [ping])
    turn = await agent.run("go", "t")
    assert "the arguments are not a JSON object: '{bad'" in results(turn)[0].text
    assert turn.messages[1].calls[0].args == {}


async def test_an_error_of_this_package_in_a_tool_is_logged_in_one_line(caplog):
    async def hand_on(ctx: ToolContext) -> str:
        """Hand on."""
        child = Agent(ScriptedModel([ToolCall("hand_on")]), limits=Limits(steps=1), name="child")
        return (await ctx.run(child, "go")).raise_for_status().text

    turn = await Agent(ScriptedModel([ToolCall("hand_on"), "ok"]), [hand_on]).run("go")
    assert "LimitExceeded: the turn reached its limit of steps" in turn.messages[2].text
    (record,) = caplog.records
    assert "reached its limit of steps" in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize("written", ["", "x", [], 0, None])
def test_the_arguments_of_a_call_are_a_dict_whatever_the_model_wrote(written):
    assert ToolCall("pay", written).args == {}


async def test_a_subagent_whose_run_a_tool_ends_reports_that_result():
    def submit(claims: list[str]) -> ToolResult:
        """Hand in."""
        return ToolResult(f"{len(claims)} claims", ends=True)

    kind = Subagent(name="reader", description="reads", tools=[submit],
                    model=ScriptedModel([ToolCall("submit", {"claims": ["a", "b"]})]))  # fmt: skip
    task = ToolCall("task", {"description": "Read.", "subagent_type": "reader"})
    turn = await create_deep_agent(ScriptedModel([task, "ok"]), subagents=[kind]).run("go")
    assert (turn.messages[2].text, turn.messages[2].is_error) == ("2 claims", False)


def test_a_turn_is_resumed_from_plain_code():
    model = ScriptedModel([Overloaded("no capacity"), "done"])
    agent = Agent(model)
    assert agent.run_sync("go", "t").status == "failed"
    assert agent.resume_sync("t").text == "done"
