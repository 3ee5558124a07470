"""One agent over the three wire formats, and over all of them in one thread: real SDKs, servers on loopback."""

import json
from contextlib import contextmanager
from itertools import permutations

import pytest
from harness.providers import Provider, cut, json_answer
from harness.wires import FORMATS, WIRES, chat, claude, connected, ls, reply, responses

from minideep import Agent, AssistantMessage, ContextOverflow, ToolCall, ToolMessage, create_deep_agent, tool
from minideep.backends import StateBackend
from minideep.events import ArgsDelta, Restarted, TextDelta, ThinkingDelta
from minideep.middleware import SummarizationMiddleware
from minideep.models import ScriptedModel


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


@pytest.mark.parametrize("stream", [False, True])
async def test_two_parallel_calls_then_an_answer(kind, stream):
    answers = [
        reply(kind, ("a", {"path": "/x"}), ("b", {"path": "/y"}), stream=stream),
        reply(kind, text="done", stream=stream),
    ]
    heard = []
    with Provider(*answers) as provider:
        async with connected(kind, provider.url) as model:
            agent = Agent(model, [ls], "Be brief.")
            if stream:
                events = agent.stream("look")
                heard = [type(event) async for event in events]
                turn = events.turn
            else:
                turn = await agent.run("look")
    assert (turn.status, turn.text) == ("ended", "done")
    assert [m.text for m in turn.messages if isinstance(m, ToolMessage)] == ["in /x", "in /y"]
    assert (turn.usage.input, turn.usage.output) == (14, 6)
    second = json.dumps(provider.bodies[1])
    assert second.index("in /x") < second.index("in /y")
    assert {"anthropic": "c2lnbmVk==", "openai": "c2VhbGVk==", "openai-chat": "let me look"}[kind] in second
    assert "Be brief." in second
    assert {TextDelta, ThinkingDelta, ArgsDelta} <= set(heard) or not stream


async def test_ids_that_a_server_repeats_are_told_apart_in_what_it_is_sent(kind):
    call = ("call_0", {"path": "/x"})
    answers = [reply(kind, call, call), reply(kind, call), reply(kind, text="done")]
    with Provider(*answers) as provider:
        async with connected(kind, provider.url) as model:
            turn = await Agent(model, [ls]).run("look")
    ids = [m.call_id for m in turn.messages if isinstance(m, ToolMessage)]
    assert len(set(ids)) == 3
    assert turn.text == "done"
    sent = json.dumps(provider.bodies[2])
    assert all(sent.count(f'"{id}"') == 2 for id in ids)


@pytest.mark.parametrize(("first", "second"), list(permutations(FORMATS, 2)))
async def test_a_thread_may_change_provider_between_any_two_steps(first, second):
    """One asks for a call, another answers it, and the first goes on."""
    with (
        Provider(reply(first, ("call.1:x", {"path": "/x"})), reply(first, text="welcome back")) as one,
        Provider(reply(second, ("other", {"path": "/y"})), reply(second, text="done")) as two,
    ):
        async with connected(first, one.url) as a, connected(second, two.url) as b:
            agent = Agent(Turns([a, b, b, a]), [ls], "Be brief.")
            turn = await agent.run("look", "t")
            again = await agent.run("and now?", "t")
    assert (turn.text, again.text) == ("done", "welcome back")
    foreign, back = json.dumps(two.bodies[0]), json.dumps(one.bodies[1])
    assert "in /x" in foreign
    assert "c2lnbmVk==" not in foreign if first == "anthropic" else "c2VhbGVk==" not in foreign
    assert "let me look" not in foreign
    assert "in /x" in back
    assert "in /y" in back
    mine = {"anthropic": "c2lnbmVk==", "openai": "c2VhbGVk==", "openai-chat": "let me look"}[first]
    assert mine in back
    assert "Be brief." in foreign
    assert "Be brief." in back


class Turns:
    """A model that is another one at each call."""

    name = "turns"

    def __init__(self, models):
        self.models = iter(models)

    async def complete(self, request, emit):
        return await next(self.models).complete(request, emit)


def overflow(kind):
    text = "prompt is too long: 300000 tokens > 200000 maximum"
    error = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": text}
    if kind == "anthropic":
        return json_answer({"type": "error", "error": {"type": "invalid_request_error", "message": text}}, 400)
    return json_answer({"error": error}, 400)


async def test_an_overflow_fails_the_turn_by_name_and_the_thread_goes_on(kind):
    with Provider(reply(kind, ("a", {"path": "/x"})), overflow(kind), reply(kind, text="done")) as provider:
        async with connected(kind, provider.url) as model:
            agent = Agent(model, [ls])
            turn = await agent.run("look", "t")
            assert (turn.status, turn.reason) == ("failed", "ContextOverflow")
            with pytest.raises(ContextOverflow, match="prompt is too long"):
                turn.raise_for_status()
            assert agent.get_state("t").status == "failed"
            assert (await agent.resume("t")).text == "done"


async def test_a_stream_cut_in_the_middle_leaves_nothing_of_itself_in_the_thread(kind):
    whole = reply(kind, text="a long answer that is cut", stream=True)
    broken = cut(whole, len(whole.body) // 2)
    with Provider(broken, reply(kind, text="whole", stream=True)) as provider:
        async with connected(kind, provider.url) as model:
            stream = Agent(model).stream("go")
            kinds = [type(event) async for event in stream]
    assert stream.turn.text == "whole"
    assert [message.text for message in stream.turn.messages] == ["go", "whole"]
    assert kinds.count(Restarted) == 1


async def test_arguments_that_are_no_json_are_the_models_to_mend(kind):
    broken = {
        "anthropic": lambda: claude.answer(
            claude.message({"type": "tool_use", "id": "a", "name": "ls", "input": '{"path": /x'}), stream=True
        ),
        "openai": lambda: responses.answer(responses.response(responses.call("a", '{"path": /x')), stream=True),
        "openai-chat": lambda: chat.answer(
            chat.completion({"tool_calls": [chat.call("a", '{"path": /x')]}, "tool_calls"), stream=True
        ),
    }[kind]()
    with Provider(broken, reply(kind, text="done", stream=True)) as provider:
        async with connected(kind, provider.url) as model:
            stream = Agent(model, [ls]).stream("go")
            async for _ in stream:
                pass
    result = stream.turn.messages[2]
    assert result.is_error
    assert "the arguments are not a JSON object: '{\"path\": /x'" in result.text
    assert stream.turn.text == "done"


async def test_a_deep_agent_runs_over_each_format(kind):
    task = {"description": "look at /x", "subagent_type": "general-purpose"}
    with provider_of(kind, [("task", task)], "the child saw it", "all done") as provider:
        async with connected(kind, provider.url) as model:
            turn = await create_deep_agent(model).run("go")
    assert (turn.text, turn.costs.steps) == ("all done", 3)
    assert isinstance(turn.messages[1], AssistantMessage)
    assert turn.messages[1].calls == (ToolCall("task", task, "t"),)
    assert "go" not in [m.get("content") for m in provider.bodies[1].get("messages", provider.bodies[1].get("input"))]


@contextmanager
def provider_of(kind, calls, *texts):
    """First a reply with *calls* as (name, arguments), then texts."""
    first = reply(kind, *(("t", arguments) for _, arguments in calls))
    body = first.body.replace(b'"name": "ls"', b'"name": "%s"' % calls[0][0].encode())
    answers = [type(first)(body, first.status, first.headers), *(reply(kind, text=text) for text in texts)]
    with Provider(*answers) as provider:
        yield provider


# ---- what a provider compacts by itself

EDITS = {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]}
SWITCHED_ON = {
    "anthropic": {
        "extra_headers": {"anthropic-beta": "compact-2026-01-12"},
        "extra_body": {"context_management": EDITS},
    },
    "openai": {"context_management": [{"type": "compaction", "compact_threshold": 50_000}]},
}
HOMES = {"anthropic": "http://api.anthropic.com", "openai": "http://api.openai.com/v1"}
SENT = {"anthropic": EDITS, "openai": SWITCHED_ON["openai"]["context_management"]}
SHORT = {
    "anthropic": {"type": "compaction", "content": "what was said", "encrypted_content": "c2hvcnQ==", "later": [1.5]},
    "openai": {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2hvcnQ=="},
}


def compacting(kind, stream, *, used=20, short=False, call="", said=""):
    """A reply that read *used* tokens, that begins with a compaction or does not, and looks or says something."""
    begin = [SHORT[kind]] * short
    if kind == "anthropic":
        blocks = [{"type": "tool_use", "id": call, "name": "look", "input": {}}] if call else [claude.text(said)]
        whole = claude.message(*begin, *blocks, input_tokens=used)
        return claude.answer(whole, stream)
    item = responses.call(call, "{}", name="look") if call else responses.message(said)
    whole = responses.response(*begin, item, usage={"input_tokens": used, "output_tokens": 3})
    return responses.answer(whole, stream)


@tool
async def look() -> str:
    """Look at something large."""
    return "x" * 2_400


async def asked(kind, store, stream, *answers):
    """A turn of an agent that summarizes over 1,000 tokens, its events, and what its provider was sent."""
    with Provider(*answers) as provider:
        # Always the same server: no other one is sent what it has compacted.
        async with WIRES[kind].at_address(HOMES[kind], provider.url) as client:
            model = WIRES[kind].model(client, "x", **SWITCHED_ON[kind])
            summarizer = ScriptedModel(["## Summary\nlooked twice"] * 9)
            parts = [SummarizationMiddleware(model, StateBackend(), summarizer=summarizer, trigger=1_000, keep=1)]
            agent = Agent(model, [look], middleware=parts, checkpointer=store)
            if not stream:
                return await agent.run("go", "t"), summarizer.requests, provider
            running = agent.stream("go", "t")
            _ = [event async for event in running]
            return running.turn, summarizer.requests, provider


def items(kind, body):
    """What a request holds, its messages undone."""
    if kind == "openai":
        return body["input"]
    return [block for message in body["messages"] for block in message["content"]]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_what_the_provider_compacts_goes_back_in_its_place_and_nobody_else_summarizes_it(kind, stream, store):
    turn, summaries, provider = await asked(
        kind, store, stream,
        compacting(kind, stream, call="c1"),
        compacting(kind, stream, used=50, short=True, call="c2"),
        compacting(kind, stream, used=650, said="done"),
    )  # fmt: skip
    assert (turn.status, turn.text, summaries) == ("ended", "done", [])
    assert [body["context_management"] for body in provider.bodies] == [SENT[kind]] * 3
    if kind == "anthropic":
        assert {headers["anthropic-beta"] for headers in provider.headers} == {"compact-2026-01-12"}
    places = [[at for at, item in enumerate(items(kind, body)) if item == SHORT[kind]] for body in provider.bodies]
    assert places == [[], [], [3]]  # Behind what was asked, the first call and its result.

    turn, summaries, provider = await asked(kind, store, stream, compacting(kind, stream, used=660, said="again"))
    assert (turn.text, summaries) == ("again", [])
    assert items(kind, provider.bodies[0])[3] == SHORT[kind]

    other = "openai" if kind == "anthropic" else "anthropic"
    turn, _, provider = await asked(other, store, stream, compacting(other, stream, said="another"))
    assert turn.text == "another"
    assert "compaction" not in json.dumps([items(other, body) for body in provider.bodies])


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_without_a_compaction_of_the_provider_the_same_conversation_is_summarized(kind, store):
    turn, summaries, _ = await asked(
        kind, store, False,
        compacting(kind, False, call="c1"),
        compacting(kind, False, used=640, call="c2"),
        compacting(kind, False, said="done"),
    )  # fmt: skip
    assert (turn.text, len(summaries)) == ("done", 1)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_reply_that_pauses_after_its_compaction_is_asked_to_go_on(stream, store):
    paused = claude.message(SHORT["anthropic"], stop="compaction")
    turn, _, provider = await asked(
        "anthropic", store, stream,
        claude.answer(paused, stream),
        compacting("anthropic", stream, said="done"),
    )  # fmt: skip
    assert (turn.status, turn.text) == ("ended", "done")
    assert provider.bodies[1]["messages"][1:] == [{"role": "assistant", "content": [SHORT["anthropic"]]}]
