"""A tool asks a person while it runs, and goes on with the answer."""

import asyncio
import json
import subprocess
import sys

import pytest
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Edit,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    Reject,
    Respond,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from minideep.events import Noted, ToolWaiting
from minideep.models import ScriptedModel


def asking(deeds, *questions):
    """A tool that asks *questions*, then does its deed."""

    @tool
    async def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        answers = [ctx.interrupt(question) for question in questions]
        deeds.append((city, *answers))
        return f"booked {city} with {', '.join(answers)}"

    return book


def agent(book, store=None, **more):
    script = ScriptedModel([ToolCall("book", {"city": "Rome"}, "b"), "Done."])
    return Agent(script, [book], checkpointer=store, **more)


class AskFirst(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?") if ctx.decision is None else call


def test_a_question_of_a_tool_pauses_the_turn_and_its_answer_is_returned_to_the_tool():
    deeds = []
    booking = agent(asking(deeds, "Which hotel?"))
    turn = booking.run_sync("Book Rome.", "t")
    wait = turn.interrupts[0]
    assert (turn.status, wait.reason, wait.question, deeds) == ("paused", "Which hotel?", True, [])
    turn = booking.resume_sync("t", {"b": Respond("the Grand")})
    assert (turn.text, deeds) == ("Done.", [("Rome", "the Grand")])
    assert turn.messages[-2].text == "booked Rome with the Grand"
    assert "questions" not in {owner for owner, notes in booking.get_state("t").notes.items() if notes}


def test_each_question_is_asked_once_and_earlier_answers_are_kept():
    deeds = []
    booking = agent(asking(deeds, "Hotel?", "Nights?", "Card?"))
    turn = booking.run_sync("Book Rome.", "t")
    for question, answer in (("Hotel?", "Grand"), ("Nights?", "3"), ("Card?", "visa")):
        assert (turn.interrupts[0].reason, deeds) == (question, [])
        turn = booking.resume_sync("t", {"b": Respond(answer)})
    assert deeds == [("Rome", "Grand", "3", "visa")]


def test_an_answer_is_not_given_to_another_question():
    asked = ["Hotel?"]

    @tool
    async def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        return " ".join(ctx.interrupt(question) for question in [*asked, "Sure?"])

    booking = agent(book)
    booking.run_sync("Book Rome.", "t")
    asked[0] = "Nights?"  # A deploy, while the thread waits.
    turn = booking.resume_sync("t", {"b": Respond("Grand")})
    assert turn.interrupts[0].reason == "Nights?"
    booking.resume_sync("t", {"b": Respond("3")})
    assert booking.resume_sync("t", {"b": Respond("yes")}).messages[-2].text == "3 yes"


def test_a_plain_function_asks_from_its_thread():
    deeds = []

    @tool
    def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        deeds.append(ctx.interrupt("Hotel?"))
        return "booked"

    booking = agent(book)
    assert booking.run_sync("Book.", "t").status == "paused"
    assert booking.resume_sync("t", {"b": Respond("Grand")}).status == "ended"
    assert deeds == ["Grand"]


def test_a_tool_that_catches_everything_waits_all_the_same():
    @tool
    async def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        try:
            return ctx.interrupt("Hotel?")
        except BaseException:
            return "never mind"

    booking = agent(book)
    assert booking.run_sync("Book.", "t").status == "paused"
    assert booking.resume_sync("t", {"b": Respond("Grand")}).messages[-2].text == "Grand"


@pytest.mark.parametrize("decision", [Approve(), Edit({"city": "Oslo"})])
def test_a_question_is_answered_or_rejected_and_nothing_else(decision):
    booking = agent(asking([], "Hotel?"))
    booking.run_sync("Book Rome.", "t")
    with pytest.raises(ConfigError, match="cannot be given about this call of book; give Respond or Reject"):
        booking.resume_sync("t", {"b": decision})
    turn = booking.resume_sync("t", {"b": Reject("too dear")})
    assert "rejected this call: too dear" in turn.messages[-2].text
    assert not booking.get_state("t").notes.get("questions")


def test_the_arguments_of_a_person_hold_after_the_question_too():
    deeds = []
    booking = agent(asking(deeds, "Hotel?"), middleware=[AskFirst()])
    assert booking.run_sync("Book Rome.", "t").interrupts[0].reason == "sure?"
    assert booking.resume_sync("t", {"b": Edit({"city": "Oslo"})}).interrupts[0].reason == "Hotel?"
    turn = booking.resume_sync("t", {"b": Respond("Grand")})  # Not asked again whether it may run.
    assert (turn.status, deeds) == ("ended", [("Oslo", "Grand")])
    assert "A person changed this call" in turn.messages[-2].text


def test_questions_of_two_calls_are_answered_together():
    deeds = []
    script = ScriptedModel(
        [[ToolCall("book", {"city": "Rome"}, "a"), ToolCall("book", {"city": "Oslo"}, "b")], "Done."]
    )
    booking = Agent(script, [asking(deeds, "Hotel?")])
    assert len(booking.run_sync("Book both.", "t").interrupts) == 2
    booking.resume_sync("t", {"a": Respond("Grand"), "b": Respond("Plaza")})
    assert sorted(deeds) == [("Oslo", "Plaza"), ("Rome", "Grand")]


def test_a_question_of_a_subagents_tool_reaches_the_person():
    deeds = []
    child = agent(asking(deeds, "Hotel?"), name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run(child, "Book Rome.")).text

    parent = Agent(ScriptedModel([ToolCall("delegate", {}, "d"), "All done."]), [delegate])
    wait = parent.run_sync("go", "t").interrupts[0]
    assert (wait.path, wait.reason) == (("d",), "Hotel?")
    assert parent.resume_sync("t", {wait.key: Respond("Grand")}).text == "All done."
    assert deeds == [("Rome", "Grand")]


def test_a_hook_cannot_ask():
    class Curious(Middleware):
        async def before_finish(self, ctx):
            ctx.interrupt("what?")

    turn = Agent(ScriptedModel(["hi"]), middleware=[Curious()]).run_sync("go")
    assert "a hook cannot ask a question" in str(turn.error)


OTHER = """
import sys
from test_questions import asking
from minideep import Agent, DiskCheckpointer, Respond
from minideep.models import ScriptedModel
deeds = []
store = DiskCheckpointer(sys.argv[1])
agent = Agent(ScriptedModel(["Done."]), [asking(deeds, "Hotel?", "Nights?")], checkpointer=store)
turn = agent.resume_sync("t", {"b": Respond(sys.argv[2])})
print(turn.status, [wait.reason for wait in turn.interrupts], deeds)
store.close()
"""


def test_another_process_answers(tmp_path):
    store = DiskCheckpointer(tmp_path / "store")
    agent(asking([], "Hotel?", "Nights?"), store).run_sync("Book Rome.", "t")
    store.close()
    said = []
    for answer in ("Grand", "3"):
        command = [sys.executable, "-c", OTHER, str(tmp_path / "store"), answer]
        env_path = [*sys.path, str(__file__).rpartition("/")[0]]
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(env_path)})
        said.append(done.stdout.strip() or done.stderr)
    assert said == ["paused ['Nights?'] []", "ended [] [('Rome', 'Grand', '3')]"]


def test_the_log_tells_question_and_answer():
    from minideep import events

    booking = agent(asking([], "Hotel?"))
    booking.run_sync("Book Rome.", "t")
    booking.resume_sync("t", {"b": Respond("Grand")})

    async def seen():
        return [event async for event in booking.follow("t")]

    told = asyncio.run(seen())
    waiting = next(event for event in told if isinstance(event, events.ToolWaiting))
    assert json.loads(waiting.json())["interrupts"][0]["question"] is True
    decided = next(event for event in told if isinstance(event, events.Decided))
    assert events.from_json(decided.json()) == decided


def without_hotel(event):
    """Redact a word wherever it is."""
    if isinstance(event, Noted):
        return structs.replace(event, value=json.loads(json.dumps(event.value).replace("Hotel", "***")))
    if isinstance(event, ToolWaiting):
        waits = [structs.replace(wait, reason=wait.reason.replace("Hotel", "***")) for wait in event.interrupts]
        return structs.replace(event, interrupts=tuple(waits))
    return event


def test_the_answer_to_a_redacted_question_is_given_to_it_in_another_process_too():
    deeds, store = [], MemoryCheckpointer()
    agent(asking(deeds, "Hotel?", "Nights?"), store, redact=without_hotel).run_sync("Book Rome.", "t")
    for answer in ("Grand", "3"):
        later = Agent(ScriptedModel(["Done."]), [asking(deeds, "Hotel?", "Nights?")], checkpointer=store)
        later.redact = without_hotel
        later.resume_sync("t", {"b": Respond(answer)})
    assert deeds == [("Rome", "Grand", "3")]


def test_where_redact_removes_what_was_asked_it_is_asked_again():
    def without_notes(event):
        return structs.replace(event, value="(gone)") if isinstance(event, Noted) else event

    deeds, store = [], MemoryCheckpointer()
    agent(asking(deeds, "Hotel?"), store, redact=without_notes).run_sync("Book Rome.", "t")
    later = Agent(ScriptedModel(["Done."]), [asking(deeds, "Hotel?")], checkpointer=store, redact=without_notes)
    turn = later.resume_sync("t", {"b": Respond("Grand")})
    assert (turn.status, [wait.reason for wait in turn.interrupts]) == ("paused", ["Hotel?"])
    assert later.resume_sync("t", {"b": Respond("Grand")}).status == "ended"
    assert deeds == [("Rome", "Grand")]


def test_a_tool_that_no_answer_made_beforehand_satisfies_waits_for_a_person():
    asked = []

    @tool
    async def count(ctx: ToolContext) -> str:
        """Count."""
        while (answer := ctx.interrupt("How many?")) != "5":
            asked.append(answer)
            assert len(asked) < 10
        return answer

    counter = Agent(ScriptedModel([ToolCall("count", {}, "c"), "Done."]), [count])
    turn = counter.with_options(unattended=Respond("as you like")).run_sync("Count.", "t")
    assert (turn.status, asked) == ("paused", ["as you like"])
    assert counter.resume_sync("t", {"c": Respond("5")}).messages[-2].text == "5"


@pytest.mark.parametrize(("decision", "paid"), [(Approve(), 100), (Edit({"n": 10}), 10)])
async def test_whoever_decides_again_about_a_call_that_was_cut_short_after_its_answer_reads_what_it_ran_with(
    decision, paid
):
    begun, deeds, store = asyncio.Event(), [], MemoryCheckpointer()

    @tool
    async def pay(n: int, ctx: ToolContext) -> str:
        """Pay."""
        ctx.interrupt("Sure?")
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        ctx.interrupt("Really?")
        deeds.append(n)
        return "paid"

    def payer(*replies):
        return Agent(ScriptedModel([*replies]), [pay], middleware=[AskFirst()], checkpointer=store)

    first = payer(ToolCall("pay", {"n": 100}, "p"))
    await first.run("Pay.", "t")
    await first.resume("t", {"p": Edit({"n": 10})})
    await first.start_resume("t", {"p": Respond("yes")})
    await begun.wait()
    await first.aclose()
    later = payer("Done.")
    turn = await later.resume("t")
    assert '{"n":10}' in turn.interrupts[0].reason
    turn = await later.resume("t", {"p": decision})
    assert turn.interrupts[0].reason == "Really?"  # The first one has its answer.
    await later.resume("t", {"p": Respond("yes")})
    assert deeds == [paid]


def test_a_tool_that_a_middleware_runs_again_has_the_answers_that_it_had():
    class Retry(Middleware):
        async def wrap_tool(self, ctx, call, run):
            result = await run(call)
            return await run(call) if result.is_error else result

    answers = []

    @tool
    async def book(city: str, ctx: ToolContext) -> str:
        """Book a trip."""
        answers.append(ctx.interrupt("Hotel?"))
        if len(answers) == 1:
            raise ToolError("full")
        return "booked"

    booking = agent(book, middleware=[Retry()])
    booking.run_sync("Book Rome.", "t")
    assert booking.resume_sync("t", {"b": Respond("Grand")}).status == "ended"
    assert answers == ["Grand", "Grand"]


def test_a_call_is_not_given_the_answer_to_another_one_that_had_its_id():
    store = MemoryCheckpointer()
    first = agent(asking([], "Hotel?", "Nights?"), store)
    first.run_sync("Book Rome.", "t")
    first.resume_sync("t", {"b": Respond("Grand")})
    first.run_sync("Never mind.", "t")
    asyncio.run(first.update_state("t", messages=[]))  # As a compaction does: nothing in context has the id now.
    turn = agent(asking([], "Hotel?"), store).run_sync("Book Rome.", "t")
    assert (turn.interrupts[0].call_id, turn.interrupts[0].reason) == ("b", "Hotel?")
