"""Typed results: asked for, read, refused and asked for again in the same run."""

import asyncio
import enum
import pickle
from dataclasses import dataclass
from typing import TypedDict

import pytest
from harness.agents import ping, results, stored, sub, task, texts
from harness.middleware import AskFirst
from harness.stores import InstrumentedStore, copy_of
from msgspec import Struct
from pydantic import BaseModel

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    ConfigError,
    Middleware,
    MiddlewareError,
    OutputViolation,
    Reply,
    Respond,
    ResponseFormat,
    ToolCall,
    ToolContext,
    ToolResult,
    Turn,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.middleware import FINAL_ANSWER, SummarizationMiddleware
from minideep.models import FallbackModel, RateLimiter, ScriptedModel
from minideep.testing import tool_context


class Report(Struct):
    title: str
    score: int = 5


class Tree(Struct):
    name: str
    leaves: "list[Tree]" = []


@dataclass
class Point:
    x: float


class Row(TypedDict):
    name: str


class Page(BaseModel):
    title: str


class Mood(enum.Enum):
    GOOD = "good"


class Cat(Struct, tag=True):
    lives: int


class Dog(Struct, tag=True):
    name: str


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
KINDS = [
    (Report, '{"title": "t"}', Report("t")),
    (Tree, '{"name": "a", "leaves": [{"name": "b"}]}', Tree("a", [Tree("b")])),
    (Point, '{"x": 1}', Point(1.0)),
    (Row, '{"name": "n"}', {"name": "n"}),
    (Page, '{"title": "t"}', Page(title="t")),
    (list[int], "[1, 2]", [1, 2]),
    (list[Report], '[{"title": "t"}]', [Report("t")]),
    (Mood, '"good"', Mood.GOOD),
    (int, "7", 7),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Cat | Dog, '{"type": "Dog", "name": "Rex"}', Dog("Rex")),
    (SCHEMA, '{"n": 1}', {"n": 1}),
    (ResponseFormat(Report), '{"title": "t", "score": 1}', Report("t", 1)),
]
GOOD = '{"title": "t", "score": 7}'


def native(replies):
    return ScriptedModel(replies, structured_output=True)


def final(**answer):
    return ToolCall(FINAL_ANSWER, answer)


def refusals(turn):
    return [message.text for message in turn.messages if message.role == "user" and "refused" in message.text]


# ---- what is asked, and what is read


@pytest.mark.parametrize(("kind", "said", "value"), KINDS, ids=lambda one: str(one)[:30])
@pytest.mark.parametrize("held", [True, False])
def test_a_text_of_json_is_the_output_and_stays_the_text(kind, said, value, held):
    turn = Agent(ScriptedModel([said], structured_output=held), response_format=kind).run_sync("go")
    assert (turn.status, turn.output, turn.text) == ("ended", value, said)


@pytest.mark.parametrize(("kind", "said", "value"), KINDS, ids=lambda one: str(one)[:30])
def test_the_arguments_of_the_final_call_are_the_output(kind, said, value):
    def answer(request):
        (shown,) = request.tools
        assert shown.name == FINAL_ANSWER
        is_wrapped = list(shown.schema.get("properties", ())) == ["answer"]
        return ToolCall(FINAL_ANSWER, f'{{"answer": {said}}}'.encode() if is_wrapped else said.encode())

    turn = Agent(ScriptedModel(answer), response_format=kind).run_sync("go")
    assert (turn.status, turn.output, turn.costs.steps) == ("ended", value, 1)


def test_a_model_with_a_mode_for_it_is_held_to_the_schema_and_shown_no_other_tool():
    model = native([ToolCall("ping"), GOOD])
    turn = Agent(model, [ping], response_format=Report).run_sync("go")
    assert turn.output == Report("t", 7)
    for request in model.requests:
        assert [shown.name for shown in request.tools] == ["ping"]
        assert request.schema["required"] == ["title", "score"]


def test_another_model_gets_a_tool_more():
    model = ScriptedModel([ToolCall("ping"), final(title="t", score=7)])
    turn = Agent(model, [ping], response_format=Report).run_sync("go")
    assert turn.output == Report("t", 7)
    assert [[shown.name for shown in request.tools] for request in model.requests] == [[FINAL_ANSWER, "ping"]] * 2
    assert [request.schema for request in model.requests] == [None, None]


@pytest.mark.parametrize(("tools", "is_held"), [([], True), ([ping], False)])
def test_a_model_whose_mode_excludes_tools_is_held_only_without_them(tools, is_held):
    model = native([GOOD])
    model.structured_output = "without tools"
    assert Agent(model, tools, response_format=Report).run_sync("go").output == Report("t", 7)
    assert (model.requests[0].schema is not None) is is_held


@pytest.mark.parametrize("kind", [Tree, dict[str, int]])
def test_what_the_mode_cannot_say_is_asked_for_by_the_tool(kind):
    said = {"name": "a"} if kind is Tree else {"a": 1}
    model = native([ToolCall(FINAL_ANSWER, said)])
    assert Agent(model, response_format=kind).run_sync("go").output is not None
    assert model.requests[0].schema is None


def test_what_models_plausibly_write_is_read_as_it_was_meant():
    def read(*replies):
        turn = Agent(ScriptedModel([*replies]), response_format=Report).run_sync("go")
        return turn.output, turn.costs.steps

    meant = Report("t", 7), 1
    assert read("<think>{}</think>Here it is:\n```json\n" + GOOD + "\n```") == meant
    assert read(final(title="t", score="7")) == meant
    assert read(final(Title="t", score=7.0)) == meant
    assert read(ToolCall(FINAL_ANSWER, {"report": {"title": "t", "score": 7}})) == meant
    assert read(ToolCall(FINAL_ANSWER, b'"```json {\\"title\\": \\"t\\", \\"score\\": 7}```"')) == meant
    assert read(final(title="t", score=None)) == (Report("t"), 1)


def test_the_last_of_several_answers_in_one_reply_counts_unless_it_is_refused():
    calls = [final(title="draft"), final(title="t", score=7), final(score=8)]
    turn = Agent(ScriptedModel([calls]), response_format=Report).run_sync("go")
    assert (turn.status, turn.output) == ("ended", Report("t", 7))


def test_a_tool_of_the_users_that_ends_the_turn_gives_the_output_too():
    @tool
    async def submit(text: str) -> ToolResult:
        """Submit."""
        return ToolResult(text, ends=True)

    turn = Agent(native([ToolCall("submit", {"text": GOOD})]), [submit], response_format=Report).run_sync("go")
    assert turn.output == Report("t", 7)


def test_an_answer_beside_other_calls_is_the_answer_whatever_their_order():
    for calls in ([final(title="t", score=7), ToolCall("ping")], [ToolCall("ping"), final(title="t", score=7)]):
        turn = Agent(ScriptedModel([calls]), [ping], response_format=Report).run_sync("go")
        assert turn.output == Report("t", 7)


def test_json_in_a_result_or_in_an_earlier_turn_is_no_answer():
    @tool
    async def look() -> str:
        """Look."""
        return GOOD

    agent = Agent(native([ToolCall("look"), "done", GOOD, "done", '{"title": "u"}']), [look], response_format=Report)
    turn = agent.run_sync("go", "t")
    assert (turn.output, len(refusals(turn))) == (Report("t", 7), 1)
    again = agent.run_sync("more", "t")
    assert (again.output, len(refusals(again))) == (Report("u"), 1)


def test_an_empty_reply_after_the_answer_leaves_the_answer():
    model = native([[GOOD, ToolCall("ping")], ""])
    assert Agent(model, [ping], response_format=Report).run_sync("go").output == Report("t", 7)


def test_a_plain_agent_has_no_output():
    assert Agent(ScriptedModel([GOOD])).run_sync("go").output is None


def test_what_is_no_type_is_refused_when_the_agent_is_built():
    class Opaque:
        pass

    for kind in (Opaque, "Report", {"type": "nonsense"}):
        with pytest.raises(ConfigError):
            Agent("offline:", response_format=kind)
    with pytest.raises(ConfigError, match="retries must be a whole number of 0 or more"):
        ResponseFormat(Report, retries=-1)


def test_a_tool_of_the_same_name_is_refused():
    @tool
    def final_answer() -> str:
        """Answer."""
        return ""

    with pytest.raises(ConfigError, match="two tools are named 'final_answer', one of them by ResponseFormat"):
        Agent("offline:", [final_answer], response_format=Report)


# ---- what is refused


@pytest.mark.parametrize("held", [True, False])
def test_a_refused_reply_is_answered_in_the_same_run_with_the_shape_that_is_wanted(held):
    model = ScriptedModel([ToolCall("ping"), "It is good.", GOOD], structured_output=held)
    turn = Agent(model, [ping], response_format=Report).run_sync("go")
    assert (turn.output, turn.costs.steps) == (Report("t", 7), 3)
    (refusal,) = refusals(turn)
    assert '{"title": string, "score"?: integer}' in refusal
    assert "It is good" not in refusal  # The model sees its own reply above it.


def test_a_refused_call_is_answered_by_an_error_and_may_be_made_again():
    model = ScriptedModel([final(score=1), final(title="t", score=7)])
    turn = Agent(model, response_format=Report).run_sync("go")
    error, answer = results(turn)
    assert error.is_error
    assert "title" in error.text
    assert '{"title": string, "score"?: integer}' in error.text
    assert (answer.text, turn.output) == ('{"title":"t","score":7}', Report("t", 7))


@pytest.mark.parametrize("retries", [0, 1, 2, 5])
@pytest.mark.parametrize("said", ["no", final(score=1)], ids=["text", "call"])
def test_a_turn_fails_after_so_many_refused_replies_and_loses_nothing(said, retries):
    model = ScriptedModel(lambda request: said)
    turn = Agent(model, response_format=ResponseFormat(Report, retries=retries)).run_sync("go")
    assert (turn.status, turn.reason, turn.output) == ("failed", "OutputViolation", None)
    assert (turn.costs.steps, turn.fault.transient) == (1 + retries, False)
    assert "the reply is not a Report" in str(turn.error)
    with pytest.raises(OutputViolation, match="not a Report"):
        turn.raise_for_status()
    if said == "no":
        assert turn.text == "no"


def test_a_retry_counts_for_calls_and_texts_alike_and_once_a_reply():
    def go(*replies):
        model = ScriptedModel([*replies, "past the end"])
        return Agent(model, response_format=ResponseFormat(Report, retries=2)).run_sync("go").costs.steps

    assert go("no", final(score=1), "no") == 3
    assert go([final(score=1), final(), final()], "no", "no") == 3


@pytest.mark.parametrize("stop", ["truncated", "refused"])
def test_a_reply_that_was_cut_off_or_refused_fails_at_once(stop):
    inner = '{"name": "a", "leaves": [{"name": "b"}, {"na'
    model = native([Reply(AssistantMessage(inner), stop=stop), '{"name": "again"}'])
    turn = Agent(model, response_format=Tree).run_sync("go")
    assert (turn.status, turn.reason, turn.text) == ("failed", "OutputViolation", inner)
    assert ("cut off" if stop == "truncated" else "it declined to answer") in str(turn.error)


def test_a_turn_that_failed_is_resumed_with_as_many_retries_as_before():
    model = native(["no", "no", "no", "no", GOOD])
    agent = Agent(model, response_format=ResponseFormat(Report, retries=1))
    assert agent.run_sync("go", "t").status == "failed"
    turn = agent.resume_sync("t")
    assert turn.status == "failed"
    assert len(model.requests) == 3  # The refused reply is not asked for twice.
    assert agent.resume_sync("t").status == "failed"
    assert agent.resume_sync("t").output == Report("t", 7)


def test_each_turn_has_its_own_retries():
    model = native(["no", GOOD, "no", GOOD, "no", GOOD])
    agent = Agent(model, response_format=ResponseFormat(Report, retries=1))
    assert [agent.run_sync("go", "t").output for _ in range(3)] == [Report("t", 7)] * 3


def test_another_hook_that_raises_the_violation_is_not_blamed_and_any_other_error_is():
    class Guard(Middleware):
        def __init__(self, error):
            self.error = error

        async def before_finish(self, ctx):
            raise self.error

    turn = Agent(ScriptedModel(["x"]), middleware=[Guard(OutputViolation("too rude"))]).run_sync("go")
    assert (type(turn.error), str(turn.error)) == (OutputViolation, "too rude")
    turn = Agent(ScriptedModel(["x"]), middleware=[Guard(ValueError("bug"))]).run_sync("go")
    assert type(turn.error) is MiddlewareError


# ---- wherever a turn is


def typed(model, store=None, **options):
    return Agent(model, [ping], checkpointer=store, response_format=Report, **options)


@pytest.mark.parametrize("said", [GOOD, final(title="t", score=7)], ids=["text", "call"])
async def test_the_output_is_there_however_the_turn_is_asked_for(store, said):
    agent = typed(ScriptedModel(lambda request: said), store)
    wanted = Report("t", 7)
    assert (await agent.run("go", "a", key="k")).output == wanted
    assert (await agent.run("go", "a", key="k")).output == wanted
    assert (await agent.resume("a")).output == wanted
    fresh = typed(ScriptedModel([]), store)
    assert (await fresh.resume("a")).output == wanted
    await typed(ScriptedModel(["no"]), store).run("more", "a")
    assert (await fresh.run("go", "a", key="k")).output == wanted
    handle = await agent.start("go", "b")
    assert (await handle).output == wanted
    async with agent.stream("go", "c") as stream:
        async for _ in stream:
            pass
    assert stream.turn.output == wanted


def test_a_turn_with_an_output_is_written_as_plain_data_and_pickled_whole():
    turn = typed(native([GOOD])).run_sync("go", "t")
    again = Turn.from_json(turn.json())
    assert (again.output, again.text) == ({"title": "t", "score": 7}, GOOD)
    assert pickle.loads(pickle.dumps(turn)) == turn
    pages = Agent(native(['{"title": "t"}']), response_format=Page).run_sync("go")
    assert Turn.from_json(pages.json()).output == {"title": "t"}


def test_a_turn_of_before_has_no_output_if_it_was_no_report(store):
    Agent(ScriptedModel(["hello"]), checkpointer=store).run_sync("go", "t")
    turn = typed(ScriptedModel([]), store).resume_sync("t")
    assert (turn.status, turn.output, turn.text) == ("ended", None, "hello")


def test_no_output_is_read_from_a_turn_that_did_not_end(store):
    agent = typed(ScriptedModel([[GOOD, ToolCall("ping")], "done"]), store, middleware=[AskFirst("ping")])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.output) == ("paused", None)


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
@pytest.mark.parametrize("said", ["no", final(score=1)], ids=["text", "call"])
def test_a_process_may_be_killed_at_any_append_and_no_turn_has_more_retries_than_it_should(said, durability):
    left = []

    def replies(request):
        bad = sum(message.role == "assistant" for message in request.messages)
        return said if bad < 2 else final(title="t", score=7)

    store = InstrumentedStore()
    store.after = lambda name, *args: left.append(copy_of(store)) if name == "append" else None
    model = ScriptedModel(replies)
    turn = typed(model, store, durability=durability).run_sync("go", "t")
    assert (turn.output, len(model.requests)) == (Report("t", 7), 3)
    for copy in left:
        again = ScriptedModel(replies)
        turn = typed(again, copy, durability=durability).resume_sync("t")
        assert turn.output == Report("t", 7)
        notes = stored(typed(again, copy)).notes["ResponseFormat"]
        assert notes["refused"][2] == 2
        assert len(again.requests) <= 3
    assert len(left) >= {"turn": 2, "step": 4, "tool": 6}[durability]


def test_a_note_written_by_a_killed_process_counts(store):
    """One retry is left of two, so one more refused reply is asked for again, and a second one is not."""
    agent = typed(ScriptedModel(lambda request: "no"), store)
    assert agent.run_sync("go", "t").costs.steps == 3
    notes = stored(agent).notes["ResponseFormat"]["refused"]
    assert notes[1:] == [3, 3]


@pytest.mark.parametrize("held", [True, False])
def test_an_approval_in_between_changes_nothing(store, held):
    replies = ["no", ToolCall("ping", {}, "p"), GOOD if held else final(title="t", score=7)]
    model = ScriptedModel(replies, structured_output=held)
    agent = typed(model, store, middleware=[AskFirst("ping")])
    assert agent.run_sync("go", "t").status == "paused"
    turn = typed(model, store, middleware=[AskFirst("ping")]).resume_sync("t", {"p": Approve()})
    assert turn.output == Report("t", 7)


def test_a_person_may_be_asked_about_the_answer_itself():
    agent = Agent(
        ScriptedModel([ToolCall(FINAL_ANSWER, {"title": "t"}, "f")] * 2 + ["no", GOOD]),
        middleware=[AskFirst(FINAL_ANSWER)],
        response_format=Report,
    )
    assert agent.run_sync("go", "t").interrupts[0].call.args == {"title": "t"}
    assert agent.resume_sync("t", {"f": Approve()}).output == Report("t")
    agent.run_sync("go", "u")
    assert agent.resume_sync("u", {"f": Respond("not yet")}).output == Report("t", 7)


def test_a_compaction_in_between_changes_nothing(store):
    pings = [ToolCall("ping", {"text": "x" * 4000})] * 3
    script = iter([*pings, "no", *pings, final(), *pings, "no"])

    def replies(request):
        return next(script) if request.tools else "a summary"

    form = ResponseFormat(Report, retries=2)
    model = ScriptedModel(replies, window=6_000)
    compaction = SummarizationMiddleware(model, StateBackend())
    turn = Agent(model, [ping], middleware=[compaction], checkpointer=store, response_format=form).run_sync("go", "t")
    assert (turn.status, turn.reason) == ("failed", "OutputViolation")
    assert sum("a summary" in text for text in texts(stored(Agent(model, checkpointer=store)).messages)) == 1


def test_a_message_after_the_answer_asks_for_another_one():
    class More(Middleware):
        async def before_finish(self, ctx):
            said = sum(message.role == "assistant" for message in ctx.state.messages)
            return UserMessage("longer") if said == 1 else None

    model = ScriptedModel([final(title="t"), "done", final(title="u")])
    turn = Agent(model, middleware=[More()], response_format=Report).run_sync("go")
    assert (turn.output, len(refusals(turn))) == (Report("u"), 1)


# ---- several models, several agents


def test_a_fallback_is_held_to_a_schema_if_all_of_its_models_can_be():
    for first, second, mode in [(True, True, True), (True, False, False), (True, "without tools", "without tools")]:
        answers = ScriptedModel(lambda request: GOOD if request.schema else final(title="t", score=7))
        models = ScriptedModel([ConnectionError("gone")] * 9), answers
        models[0].structured_output, models[1].structured_output = first, second
        model = FallbackModel(models)
        assert model.structured_output == mode
        assert RateLimiter(model).structured_output == mode
        assert Agent(model, [ping], response_format=Report).run_sync("go").output == Report("t", 7)


def test_the_model_of_an_override_decides_for_itself():
    agent = typed(native([]))
    with agent.override(model=(model := ScriptedModel([final(title="t", score=7)]))):
        assert agent.run_sync("go").output == Report("t", 7)
    assert model.requests[0].schema is None


def test_a_wrap_that_asks_another_model_gets_its_text_checked():
    other = ScriptedModel(["no", GOOD])

    class Other(Middleware):
        async def wrap_model(self, ctx, request, ask):
            return await ask(request, model=other)

    turn = typed(native([]), middleware=[Other()]).run_sync("go")
    assert (turn.output, len(refusals(turn))) == (Report("t", 7), 1)


def lead(*calls):
    return lambda request: list(calls) if request.messages[-1].role == "user" else "done"


def test_a_subagent_answers_with_json_which_its_description_announces():
    critic = sub("critic", ScriptedModel(["hm", "so: " + GOOD]), response_format=Report)
    model = ScriptedModel(lead(task("critic")))
    agent = create_deep_agent(model, subagents=[critic])
    turn = agent.run_sync("go")
    assert results(turn)[0].text == '{"title":"t","score":7}'
    (shown,) = [one for one in model.requests[0].tools if one.name == "task"]
    assert 'it answers with JSON of this shape: {"title": string, "score"?: integer}' in shown.description


def test_subagents_side_by_side_answer_each_in_their_own_form():
    kinds = {"critic": Report, "counter": list[int], "page": Page}
    replies = {"critic": ["no", GOOD], "counter": ["no", "no", "[1]"], "page": [ToolCall(FINAL_ANSWER, {"title": "t"})]}
    subs = [sub(name, ScriptedModel(replies[name]), response_format=kind) for name, kind in kinds.items()]
    agent = create_deep_agent(ScriptedModel(lead(*map(task, kinds))), subagents=subs)
    turn = agent.run_sync("go", "t")
    assert [result.text for result in results(turn)] == ['{"title":"t","score":7}', "[1]", '{"title":"t"}']


def test_a_subagent_that_cannot_answer_in_its_form_is_an_error_for_its_parent():
    critic = sub("critic", ScriptedModel(lambda request: "no"), response_format=ResponseFormat(Report, retries=1))
    turn = create_deep_agent(ScriptedModel(lead(task("critic"))), subagents=[critic]).run_sync("go")
    (result,) = results(turn)
    assert result.is_error
    assert "the reply is not a Report" in result.text
    assert "It said last: no" in result.text


def test_a_deep_agent_and_its_subagents_have_a_form_each():
    critic = {"name": "critic", "description": "finds faults", "response_format": list[int], "model": native(["[1]"])}
    model = ScriptedModel([task("critic"), final(title="t", score=7)])
    turn = create_deep_agent(model, subagents=[critic], response_format=Report).run_sync("go")
    assert (turn.output, results(turn)[0].text) == (Report("t", 7), "[1]")


def test_the_form_of_an_agent_is_not_that_of_the_runs_below_it():
    model = ScriptedModel([task("general-purpose"), "I have looked.", final(title="t", score=7)])
    turn = create_deep_agent(model, response_format=Report).run_sync("go")
    assert (turn.output, results(turn)[0].text) == (Report("t", 7), "I have looked.")


def test_the_form_of_an_agent_is_not_that_of_an_agent_that_its_tool_runs():
    model = ScriptedModel(["I have looked."])

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        below = await ctx.run(Agent(model, name="below"), "look")
        return f"{below.status}: {below.text}"

    turn = Agent(ScriptedModel([ToolCall("look"), GOOD]), [look], response_format=Report).run_sync("go")
    assert (results(turn)[0].text, turn.output) == ("ended: I have looked.", Report("t", 7))
    assert model.requests[0].tools == ()


def test_a_hook_knows_the_model_that_answers_its_run():
    seen = []

    class Look(Middleware):
        async def before_model(self, ctx, request):
            seen.append(ctx.model)
            return request

    agent = Agent(first := ScriptedModel(["ok"]), middleware=[Look()])
    agent.run_sync("go")
    with agent.override(model=(second := ScriptedModel(["ok"]))):
        agent.run_sync("go")
    assert seen == [first, second]
    assert tool_context().model.name == "policy"


async def test_one_format_serves_many_turns_at_once():
    form = ResponseFormat(Report)

    async def go(number):
        model = ScriptedModel(["no", f'{{"title": "{number}"}}'])
        return (await Agent(model, response_format=form).run("go")).output.title

    assert await asyncio.gather(*map(go, range(20))) == [str(number) for number in range(20)]
