"""Goldens of threads: what a message led to by itself is what is expected."""

import asyncio

import pytest

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    MemoryCheckpointer,
    ModelError,
    ToolCall,
    ToolContext,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.evals import ExpectedCall, Golden, evaluate, from_thread, load
from minideep.events import TurnEscalated
from minideep.messages import Image
from minideep.middleware import HumanInTheLoopMiddleware
from minideep.models import ScriptedModel


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent(*replies, store=None):
    guard = HumanInTheLoopMiddleware({"pay": True})
    return Agent(ScriptedModel(replies), [pay], middleware=[guard], checkpointer=store)


async def test_each_message_is_a_golden_with_those_before_it():
    store = MemoryCheckpointer()
    mine = agent("Hello.", ToolCall("pay", {"amount": 1}, "p"), "Paid.", ModelError("down"), store=store)
    await mine.run("Hi.", "t")
    await mine.run("Pay.", "t")
    await mine.resume("t", {"p": Approve()})
    await mine.run("And now?", "t")
    goldens = from_thread(store, "t")
    assert goldens == [
        Golden("Hi.", "Hello.", id="t-1"),
        Golden(
            "Pay.",
            expected_status="paused",
            expected_calls=(ExpectedCall("pay", {"amount": 1}),),
            id="t-2",
            earlier=("Hi.",),
        ),
        Golden("And now?", expected_status="failed", id="t-3", earlier=("Hi.", "Pay.")),
    ]
    same = agent("Hello.", "Hello.", ToolCall("pay", {"amount": 1}))
    assert (await evaluate(same, goldens[:2])).passed


async def test_goldens_are_written_as_they_are_read(tmp_path):
    store = MemoryCheckpointer()
    await agent("Hello.", ToolCall("pay", {"amount": 1}), store=store).run("Hi.", "t")
    await agent(ToolCall("pay", {"amount": 1}), store=store).run("Pay.", "t")
    goldens = from_thread(store, "t")
    (tmp_path / "g.jsonl").write_text("".join(f"{golden.json()}\n" for golden in goldens))
    assert load(tmp_path / "g.jsonl") == goldens
    assert Golden("g").json() == '{"goal":"g"}'


async def test_what_has_no_text_and_what_was_cancelled_or_cut_short_is_left_out():
    store, asked = MemoryCheckpointer(), asyncio.Event()

    async def says(request):
        if len(request.messages) < 3:
            return "Nice."
        asked.set()
        await asyncio.sleep(100)

    mine = Agent(ScriptedModel(says), checkpointer=store)
    await mine.run(UserMessage((Image(b"\x89PNG\r\n\x1a\n"),)), "t")
    running = asyncio.ensure_future(mine.run("Wait.", "t"))
    await asked.wait()
    assert await mine.cancel("t")
    await running
    assert from_thread(store, "t") == []
    with pytest.raises(UnknownThread):
        from_thread(store, "none")


async def test_the_answers_of_a_history_are_nobodys_to_expect():
    mine = Agent(ScriptedModel(["Because."]))
    await mine.run([UserMessage("Hi."), AssistantMessage("Hello."), UserMessage("Why?")], "t")
    assert from_thread(mine._own, "t") == [
        Golden("Why?", "Because.", expected_status="ended", id="t-2", earlier=("Hi.",)),
    ]


async def test_files_of_the_messages_and_questions_stand_in_goldens():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask the user."""
        ctx.record(TurnEscalated(1.0, "Which one?"))
        return "asked"

    mine = create_deep_agent(ScriptedModel(["One.", ToolCall("ask")]), [ask])
    await mine.run("Read.", "t", files={"/a.md": "a", "/b.bin": b"\xff"})
    await mine.run("Again.", "t", files={"/c.md": "c"})
    first, second = from_thread(mine._own, "t")
    assert (first.files, second.files) == ({"/a.md": "a"}, {"/a.md": "a", "/c.md": "c"})
    assert (second.expected_status, second.expected_final_answer) == ("escalated", "Which one?")
