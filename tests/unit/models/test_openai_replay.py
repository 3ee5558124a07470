"""What comes back from the Responses API goes back as it came: ids, parts, citations; and what would be refused does not."""

import asyncio
from typing import Any

import pytest
from harness.providers import Provider, json_answer
from harness.wires import HELLO, responses, saying
from harness.wires.responses import OWN, ask, asking_at, call, message, reasoning, response, said

from minideep import Agent, MemoryCheckpointer
from minideep.errors import ConfigError
from minideep.messages import (
    AssistantMessage,
    Citation,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from minideep.models import OpenAI
from minideep.plain_json import to_json
from minideep.ports import Request

THOUGHT = reasoning("hm")
CALLED = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
WITH_ID = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
URL = {"type": "url_citation", "start_index": 3, "end_index": 9, "url": "https://a.example/", "title": "A"}
FILE = {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 4}
MADE = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "plot.png",
        "start_index": 0, "end_index": 4}  # fmt: skip
PATH = {"type": "file_path", "file_id": "file_2", "index": 7}
LATER = {"type": "dream_citation", "dream": {"depth": [1, None]}}


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(responses, request.param == "sse")


def part(text: str, *annotations: Any) -> Any:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def back(*messages: Any, **settings: Any) -> list[Any]:
    """The input items that *messages* become: what is behind a greeting, and before the results that are missing."""
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    answered = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    missing = [ToolMessage("a", call.id, call.name) for call in calls if call.id not in answered]
    request = Request("", (*HELLO.messages, *messages, *missing))
    items = ask(json_answer(said("ok")), request=request, listen=False, **settings).bodies[0]["input"]
    return items[1 : len(items) - len(missing)]


def raw(item: Any) -> bytes:
    return to_json(item)


# ---- ids beside reasoning


@pytest.mark.parametrize("store", [False, True])
def test_beside_reasoning_messages_and_calls_go_back_with_their_ids(say, store):
    reply = say(response(THOUGHT, message("looking", phase="commentary"), call("c1", "{}")), store=store).reply
    looking = WITH_ID | {"content": [part("looking")], "phase": "commentary"}
    assert back(reply.message, store=store) == [THOUGHT, looking, CALLED | {"id": "fc_c1"}]


def test_without_reasoning_no_ids_are_kept(say):
    reply = say(response(message("looking"), call("c1", "{}"))).reply
    assert reply.message.blocks == (Text("looking"), ToolCall("ls", {}, "c1"))


@pytest.mark.parametrize("store", [False, True])
def test_reasoning_with_nothing_behind_it_is_not_sent(say, store):
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    reply = say(response(THOUGHT, reasoning("more") | {"id": "rs_2"}, **cut)).reply
    assert reply.stop == "truncated"
    assert back(reply.message, UserMessage("go on"), store=store) == back(UserMessage("go on"))
    reply = say(response(message("so"), THOUGHT, **cut)).reply
    assert back(reply.message, store=store) == [{"role": "assistant", "content": "so"}]


def test_reasoning_before_an_empty_message_is_not_sent(say):
    assert back(say(response(THOUGHT, message(""))).reply.message) == []


def older_log(thought: Any) -> AssistantMessage:
    """A reply as logs held it before ids were kept."""
    return AssistantMessage((Thinking("hm", "openai", raw(thought)), ToolCall("ls", {}, "c1")))


@pytest.mark.parametrize("store", [False, True])
def test_reasoning_of_older_logs_goes_back_without_its_id(store):
    """Since the call behind it has none, the provider would look for the one that it knows."""
    sealed = {name: value for name, value in THOUGHT.items() if name != "id"}
    assert back(older_log(THOUGHT), store=store) == [sealed, CALLED]
    told = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    assert back(older_log(told | {"id": "rs_1"}), store=store) == [told, CALLED]
    assert back(older_log({"type": "reasoning", "id": "rs_1", "summary": []}), store=store) == [CALLED]


def test_reasoning_that_only_the_provider_has_goes_back_where_it_stores_replies(say):
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    reply = say(response(bare, call("c1", "{}")), store=True, include=[]).reply
    assert back(reply.message, store=True) == [bare, CALLED | {"id": "fc_c1"}]
    assert back(reply.message) == [CALLED]


def test_reasoning_that_a_server_sends_without_a_summary_gets_an_empty_one(say):
    bare = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": None}
    reply = say(response(bare, call("c1", "{}"))).reply
    assert back(reply.message)[0] == bare | {"summary": []}


def test_ids_go_with_the_reasoning_that_they_belong_to(say):
    blocks = say(response(THOUGHT, message("so"), call("c1", "{}"))).reply.message.blocks
    rest = tuple(block for block in blocks if not isinstance(block, Thinking))
    assert back(AssistantMessage(rest)) == [{"role": "assistant", "content": "so"}, CALLED]


def test_an_id_that_a_server_repeats_goes_back_once(say):
    """A compatible server may name all of its items alike; twice in a request they are refused."""
    replies = [say(response(THOUGHT, call(f"c{number}", "{}"), message("so"))).reply.message for number in (1, 2, 3)]
    items = back(*replies)
    assert [item["id"] for item in items if "id" in item] == ["rs_1", "fc_c1", "msg_1"]
    assert [item["type"] for item in items if item.get("type")] == [
        "reasoning", "function_call", "message", "reasoning", "function_call", "reasoning", "function_call"
    ]  # fmt: skip
    twice = say(response(THOUGHT, message("a"), message("b"))).reply.message
    assert [item.get("id") for item in back(twice)] == [None, None, None]


def test_a_thread_goes_on_after_a_reply_that_was_only_reasoning():
    answers = [response(THOUGHT, status="incomplete", incomplete_details={"reason": "max_output_tokens"})]
    answers += [said("well")] * 3
    bodies = in_turns(answers, "one", "two", "three", "four")
    assert all("reasoning" not in [item.get("type") for item in body["input"]] for body in bodies)


def in_turns(answers: list[Any], *inputs: str) -> list[Any]:
    async def go() -> list[Any]:
        with Provider(*map(json_answer, answers)) as provider:
            async with responses.connected(provider.url) as client:
                agent = Agent(responses.model(client), checkpointer=MemoryCheckpointer())
                for text in inputs:
                    assert (await agent.run(text, "thread")).status == "ended"
        return provider.bodies

    return asyncio.run(go())


# ---- from server to server


ITEM = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
ALL = response(THOUGHT, ITEM, message("") | {"content": [part("see a", URL)]}, call("c1", "{}", namespace="crm"))
COMMON = [{"role": "assistant", "content": "see a"}, CALLED]


def received(at: str, *messages: Any) -> list[Any]:
    request = Request("", (*HELLO.messages, *messages, ToolMessage("a", "c1", "ls")))
    return asking_at(at)(json_answer(said("ok")), request=request, listen=False).bodies[0]["input"][1:-1]


@pytest.mark.parametrize("at", ["http://localhost:8000/v1", "http://api.openai.com/other/v1"])
def test_what_only_one_server_understands_does_not_go_to_another(say, at):
    reply = say(ALL).reply.message
    assert received(at, reply) == COMMON
    assert [item["type"] for item in received("http://api.openai.com/v1/", reply)] == [
        "reasoning", "web_search_call", "message", "function_call"
    ]  # fmt: skip


@pytest.mark.parametrize("at", ["http://localhost:8000/v1", "http://api.openai.com/v1"])
def test_blocks_of_older_logs_that_name_no_server_go_to_each(at):
    assert [item["type"] for item in received(at, older_log(THOUGHT))] == ["reasoning", "function_call"]


# ---- messages of several parts


def test_the_parts_of_a_message_are_one_item_again(say):
    two = message("") | {"content": [part("one, "), {"type": "refusal", "refusal": "not two"}]}
    reply = say(response(two, message("three"))).reply
    assert (reply.message.text, reply.stop) == ("one, not twothree", "refused")
    texts = [block.text for block in reply.message.blocks if isinstance(block, Text)]
    assert texts == ["one, ", "not two", "three"]
    both = {"type": "message", "role": "assistant", "content": [part("one, "), part("not two")]}
    assert back(reply.message) == [both, {"role": "assistant", "content": "three"}]


def test_two_messages_stay_two(say):
    first, second = message("one", phase="commentary"), message("two", id="msg_2")
    assert back(say(response(first, second)).reply.message) == [
        {"role": "assistant", "content": "one", "phase": "commentary"},
        {"role": "assistant", "content": "two"},
    ]
    beside = back(say(response(THOUGHT, first, second)).reply.message)
    assert [item["id"] for item in beside] == ["rs_1", "msg_1", "msg_2"]


def test_texts_of_older_logs_are_messages_of_their_own():
    said = AssistantMessage((Text("one"), Text("two"), Text("")))
    assert back(said) == [{"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}]


# ---- citations


def test_citations_are_read_and_go_back_as_they_were(say):
    cited = message("") | {"content": [part("see a.pdf", URL, FILE, LATER), part("plot", MADE, PATH)]}
    reply = say(response(cited)).reply
    first, second = (block for block in reply.message.blocks if isinstance(block, Text))
    assert first.citations == (
        Citation("https://a.example/", "A", start=3, end=9, provider=OWN, raw=raw(URL)),
        Citation(title="a.pdf", start=4, end=4, provider=OWN, raw=raw(FILE)),
        Citation(provider=OWN, raw=raw(LATER)),
    )
    assert second.citations == (
        Citation(title="plot.png", start=0, end=4, provider=OWN, raw=raw(MADE)),
        Citation(provider=OWN, raw=raw(PATH)),
    )
    content = [part("see a.pdf", URL, FILE, LATER), part("plot", MADE, PATH)]
    assert back(reply.message) == [{"type": "message", "role": "assistant", "content": content}]


def test_a_cited_message_of_one_part_goes_back_with_its_citations(say):
    reply = say(response(message("") | {"content": [part("see a", URL)]})).reply
    assert back(reply.message) == [{"type": "message", "role": "assistant", "content": [part("see a", URL)]}]


def test_citations_of_other_providers_are_left_out():
    foreign = Citation("https://b.example/", provider="anthropic", raw=b'{"type":"web_search_result_location"}')
    assert back(AssistantMessage((Text("so", (foreign,)),))) == [{"role": "assistant", "content": "so"}]


@pytest.mark.parametrize("annotations", [None, {}, "none", [None, "a", 5]])
def test_annotations_that_are_none_do_no_harm(say, annotations):
    odd = {"type": "output_text", "text": "hi", "annotations": annotations}
    assert say(response(message("") | {"content": [odd]})).reply.message.blocks == (Text("hi"),)


def test_a_citation_whose_fields_are_of_other_types_keeps_what_it_was(say):
    odd = {"type": "url_citation", "url": None, "title": 5, "start_index": "3", "end_index": True}
    (block,) = say(response(message("") | {"content": [part("hi", odd)]})).reply.message.blocks
    assert block == Text("hi", (Citation(provider=OWN, raw=raw(odd)),))


# ---- a conversation that the provider keeps


@pytest.mark.parametrize("setting", ["previous_response_id", "conversation"])
def test_a_conversation_that_the_provider_keeps_is_refused(setting):
    with pytest.raises(ConfigError, match=f"{setting}' would send a conversation twice.*leave it out"):
        OpenAI("gpt-x", **{setting: "resp_1"})
    OpenAI("gpt-x", **{setting: None})


def test_results_of_calls_that_a_program_made_name_their_caller(say):
    program = {"type": "program", "caller_id": "p1"}
    made = call("c1", "{}", caller=program)
    direct = call("c2", "{}", caller={"type": "direct"})
    reply = say(response({"type": "program", "id": "prog_1", "call_id": "p1", "code": "ls()"}, made, direct)).reply
    results = ToolMessage("a", "c1", "ls"), ToolMessage("b", "c2", "ls")
    assert back(reply.message, *results)[1:] == [
        CALLED | {"caller": program},
        CALLED | {"call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "caller": program, "output": "a"},
        {"type": "function_call_output", "call_id": "c2", "output": "b"},
    ]
    assert not [block for block in reply.message.blocks[3:] if isinstance(block, ProviderBlock)]
