"""What goes back to a server of Chat Completions, and what stays away from it: OpenAI's real SDK over loopback."""

import asyncio
import base64
import copy
import time

import openai
import pytest
from harness.media import BMP, FLAC, JPEG, MP3, MP4, PDF, PNG, WAV
from harness.providers import Provider, json_answer, sse
from harness.wires import HELLO, chat, saying
from harness.wires.chat import call, chunk, completion, resent, said, sent_to
from msgspec import structs

from minideep import Agent, tool
from minideep.events import TextDelta, ThinkingDelta
from minideep.messages import (
    AssistantMessage,
    Audio,
    Citation,
    Document,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    Video,
)
from minideep.models.body import encode
from minideep.models.failures import BadReply
from minideep.models.openai.chat_request import Dialect, conversation, dialect, encoded
from minideep.plain_json import from_json, to_json

LOCAL = "http://local.test/v1"
ELSEWHERE = "http://elsewhere.test/v1"
OPENAI = "http://api.openai.com/v1"
OPENROUTER = "http://openrouter.ai/api/v1"
MINE = "openai-chat:local.test"
SIGNATURE = {"google": {"thought_signature": "c2ln"}}
every_form = pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])


def back(whole, stream, **settings):
    return resent(chat.answer(whole, stream), **settings)


def blocks_of(whole, stream=False):
    return saying(chat, stream)(whole).reply.message.blocks


def elsewhere(whole, stream=False, at=ELSEWHERE):
    """What another server is sent of a reply and of a word that follows it."""
    message = saying(chat, stream)(whole).reply.message
    return sent_to(at, *HELLO.messages, message, UserMessage("go on"))[1:-1]


# ---- one provider per server


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai-chat:api.openai.com"),
        ("https://api.deepseek.com", "openai-chat:api.deepseek.com"),
        ("https://api.deepseek.com:443/v1/", "openai-chat:api.deepseek.com"),
        ("http://127.0.0.1:8000/v1", "openai-chat:127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "openai-chat:[::1]:8000"),
        ("https://me:secret@openrouter.ai/api/v1", "openai-chat:openrouter.ai/api/v1"),
    ],
)
def test_each_server_is_a_provider_of_its_own(url, provider):
    assert dialect(openai.AsyncOpenAI(base_url=url, api_key="x"), True).provider == provider


OWN = (
    Thinking("hm", MINE, b'{"reasoning_content":"hm"}'),
    ProviderBlock(MINE, to_json({"message": {"extra_content": SIGNATURE}})),
    Text("so"),
    ProviderBlock(MINE, to_json({"extra_content": SIGNATURE})),
    ToolCall("ls", {}, "c1"),
)


def test_what_one_server_sent_beside_a_reply_goes_to_no_other():
    thread = (*HELLO.messages, AssistantMessage(OWN), ToolMessage("done", "c1", "ls"))
    called = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    plain = {"role": "assistant", "content": "so", "tool_calls": [called]}
    assert sent_to(ELSEWHERE, *thread)[1] == sent_to(OPENAI, *thread)[1] == plain
    whole = {**plain, "reasoning_content": "hm", "extra_content": SIGNATURE}
    assert sent_to(LOCAL, *thread)[1] == {**whole, "tool_calls": [{**called, "extra_content": SIGNATURE}]}


def test_reasoning_in_an_older_log_goes_wherever_it_went_but_to_openai():
    older = AssistantMessage((Thinking("hm", "openai-chat", b'{"reasoning_content":"hm"}'), Text("so")))
    assert sent_to("http://api.deepseek.com", older) == [
        {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    ]
    assert sent_to(OPENAI, older) == [{"role": "assistant", "content": "so"}]


def test_reasoning_is_kept_back_from_a_server_that_rejects_its_own():
    message = AssistantMessage((*OWN[:1], Thinking("", MINE, b'{"type":"thinking","thinking":[]}'), *OWN[1:3]))
    kept = {"role": "assistant", "content": "so", "extra_content": SIGNATURE}
    assert sent_to(LOCAL, message, send_reasoning=False) == [kept]
    assert sent_to(LOCAL, AssistantMessage(OWN[:1]), UserMessage("hi"), send_reasoning=False) == [
        {"role": "user", "content": "hi"}
    ]


# ---- reasoning and signatures


@every_form
def test_empty_reasoning_beside_a_call_goes_back(stream):
    calls = {"tool_calls": [call("c1", "{}")]}
    answer = chat.answer(completion({"reasoning_content": "", **calls}), stream)
    if stream:
        answer = sse(chunk({"reasoning_content": ""}), chunk(calls), chunk({}, "tool_calls"), "[DONE]")
    assert resent(answer) == {"role": "assistant", "content": None, "reasoning_content": "", **calls}


@every_form
def test_empty_reasoning_beside_text_is_dropped(stream):
    assert back(completion({"reasoning_content": "", "content": "so"}), stream) == {
        "role": "assistant",
        "content": "so",
    }


def thinking(text, **fields):
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **fields}


PARTS = [
    thinking("let me see", closed=True),
    {"type": "text", "text": "so"},
    {"type": "reference", "reference_ids": [1]},
]


@every_form
def test_thinking_in_the_content_goes_back_as_a_list_in_its_order(stream):
    assert back(completion({"content": PARTS}), stream)["content"] == PARTS
    assert [block.text for block in blocks_of(completion({"content": PARTS}), stream)[:2]] == ["let me see", "so"]
    assert elsewhere(completion({"content": PARTS}), stream) == [{"role": "assistant", "content": "so"}]


def test_thinking_in_the_content_is_one_part_again_when_it_was_streamed_in_pieces():
    pieces = [
        chunk({"content": [thinking("let ")]}),
        chunk({"content": [thinking("me see", closed=True)]}),
        chunk({"content": "s"}),
        chunk({"content": "o"}),
        chunk({"content": [thinking("again")]}),
    ]
    heard = chat.ask(sse(*pieces, chunk({}, "stop")))
    assert heard.events == [
        ThinkingDelta("let "),
        ThinkingDelta("me see"),
        TextDelta("s"),
        TextDelta("o"),
        ThinkingDelta("again"),
    ]
    first, _, last = heard.reply.message.blocks
    assert [from_json(block.raw) for block in (first, last)] == [PARTS[0], thinking("again")]
    assert resent(sse(*pieces, chunk({}, "stop")))["content"] == [*PARTS[:2], thinking("again")]


@every_form
@pytest.mark.parametrize("message", [{"content": "so"}, {"tool_calls": [call("c1", "{}")]}], ids=["text", "call"])
def test_a_signature_beside_the_message_goes_back(stream, message):
    sent = back(completion({**message, "extra_content": SIGNATURE}), stream)
    assert sent == {"role": "assistant", "content": None, **message, "extra_content": SIGNATURE}


# ---- images, sound and sources


URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
IMAGE = {"type": "image_url", "image_url": {"url": URL}, "index": 0}
SHOWN = {"type": "image_url", "image_url": {"url": URL}}


@every_form
def test_an_image_that_the_model_made_is_readable_and_goes_back_to_its_server(stream):
    whole = completion({"content": "a cat", "images": [IMAGE]})
    assert [block for block in blocks_of(whole, stream) if isinstance(block, Image)] == [Image(PNG)]
    assert back(whole, stream) == {"role": "assistant", "content": "a cat", "images": [IMAGE]}


def test_an_image_that_the_model_made_is_shown_to_another_server_by_a_user():
    label = {"type": "text", "text": "(the assistant's image)"}
    assert elsewhere(completion({"content": "a cat", "images": [IMAGE]})) == [
        {"role": "assistant", "content": "a cat"},
        {"role": "user", "content": [label, SHOWN]},
    ]


@pytest.mark.parametrize("url", ["https://a.test/cat.png", "data:image/png;base64,a", "data:image/png;base64,aGk"])
def test_an_image_behind_an_address_goes_back_as_it_was(url):
    images = [{"type": "image_url", "image_url": {"url": url}}]
    whole = completion({"content": "a cat", "images": images})
    assert back(whole, False)["images"] == images
    assert elsewhere(whole) == [{"role": "assistant", "content": "a cat"}]


def spoken(expires):
    return {"id": "audio_1", "expires_at": expires, "data": base64.b64encode(WAV).decode(), "transcript": "hi there"}


@every_form
def test_sound_goes_back_by_its_id_until_it_expires_and_then_as_its_words(stream):
    later, over = (completion({"audio": spoken(time.time() + hours * 3600)}) for hours in (1, -1))
    assert list(blocks_of(later, stream)[1:]) == [Text("hi there"), Audio(WAV)]
    assert back(later, stream) == {"role": "assistant", "audio": {"id": "audio_1"}}
    words = {"role": "assistant", "content": "hi there"}
    assert (back(over, stream), elsewhere(later, stream)) == (words, [words])


def test_sound_that_expires_between_two_requests_of_one_model_goes_back_as_its_words():
    blocks = blocks_of(completion({"audio": spoken(time.time() + 3600)}))
    once_encoded = encoded(AssistantMessage(blocks), Dialect(blocks[0].provider))
    assert b"audio_1" in conversation("", [once_encoded])[0]
    assert b"hi there" in conversation("", [structs.replace(once_encoded, expires=time.time())])[0]


def test_sound_that_is_streamed_in_pieces_is_one():
    pieces = [base64.b64encode(piece).decode() for piece in (WAV[:10], WAV[10:])]
    heard = chat.streamed(
        {"audio": {"id": "audio_1", "transcript": "hi "}},
        {"audio": {"data": pieces[0], "transcript": "there"}},
        {"audio": {"data": pieces[1], "expires_at": 9}},
    )
    assert heard.events == [TextDelta("hi "), TextDelta("there")]
    assert heard.reply.message.blocks[1:] == (Text("hi there"), Audio(WAV))
    assert from_json(heard.reply.message.blocks[0].raw) == {"message": {"audio": {"id": "audio_1", "expires_at": 9}}}


CITED = {"url": "https://a.test", "title": "A", "start_index": 3, "end_index": 5, "content": "quoted"}
ANNOTATION = {"type": "url_citation", "url_citation": CITED}
PARSED = {"type": "file", "file": {"hash": "h", "name": "a.pdf", "content": [{"type": "text", "text": "words"}]}}


@every_form
def test_sources_are_readable_and_go_back_only_to_a_server_that_takes_them(stream):
    whole = completion({"content": "so (1)", "annotations": [ANNOTATION, PARSED]})
    (text,) = (block for block in blocks_of(whole, stream) if isinstance(block, Text))
    (source,) = text.citations
    assert source == Citation("https://a.test", "A", "quoted", 3, 5, source.provider, to_json(ANNOTATION))
    plain = {"role": "assistant", "content": "so (1)"}
    assert back(whole, stream, at=OPENROUTER) == {**plain, "annotations": [ANNOTATION, PARSED]}
    assert back(whole, stream) == back(whole, stream, at=OPENAI) == plain


# ---- calls


@every_form
def test_a_call_in_the_older_form_of_the_api_goes_back_in_the_newer_one(stream):
    function = {"name": "ls", "arguments": '{"path":"a"}'}
    answer = json_answer(completion({"function_call": function}, "function_call"))
    if stream:
        deltas = [{"name": "ls", "arguments": ""}, {"arguments": '{"path"'}, {"arguments": ':"a"}'}]
        answer = sse(*(chunk({"function_call": delta}) for delta in deltas), chunk({}, "function_call"))
    (sent,) = resent(answer)["tool_calls"]
    assert (sent["type"], sent["function"]) == ("function", function)


CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "run_sql", "input": "select 1"}}


@tool
async def run_sql(input: str) -> str:
    """Run a statement."""
    return f"ran {input}"


@every_form
def test_a_custom_call_is_answered_by_the_tool_of_its_name_and_goes_back_in_its_type(stream):
    declared = {"type": "custom", "custom": {"name": "run_sql", "format": {"type": "text"}}}
    first = json_answer(completion({"tool_calls": [CUSTOM]}, "tool_calls"))
    if stream:
        pieces = [
            CUSTOM | {"index": 0, "custom": {"name": "run_sql", "input": "select"}},
            {"index": 0, "custom": {"input": " 1"}},
        ]
        first = sse(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "tool_calls"))

    async def go():
        with Provider(first, chat.answer(said("ok"), stream)) as server:
            async with chat.connected(server.url) as client:
                agent = Agent(chat.model(client, tools=[declared]), [run_sql])
                if not stream:
                    return await agent.run("go"), server.bodies
                async with agent.stream("go") as events:
                    async for _ in events:
                        pass
                return events.turn, server.bodies

    turn, bodies = asyncio.run(go())
    assert turn.text == "ok"
    assert bodies[0]["tools"] == [declared]
    assert bodies[1]["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [CUSTOM]},
        {"role": "tool", "tool_call_id": "c1", "content": "ran select 1"},
    ]


def test_a_custom_call_goes_to_another_server_as_a_call_of_a_function():
    message = saying(chat, False)(completion({"tool_calls": [CUSTOM]})).reply.message
    (sent,) = sent_to(ELSEWHERE, message)[0]["tool_calls"]
    function = {"name": "run_sql", "arguments": '{"input":"select 1"}'}
    assert sent == {"id": "c1", "type": "function", "function": function}


def test_a_name_that_a_model_made_up_is_rewritten_in_its_call_and_in_the_label_of_what_it_shows():
    name = "look<|channel|>json"
    calls = AssistantMessage((ToolCall(name, {}, "c1"),))
    sent = sent_to(LOCAL, calls, ToolMessage((Image(PNG),), "c1", name))
    assert sent[0]["tool_calls"][0]["function"]["name"] == "look__channel__json"
    assert sent[2]["content"] == [{"type": "text", "text": "look__channel__json (c1) shows:"}, SHOWN]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        (b'{"n":NaN}', '{"n":"NaN"}'),
        (b'{"n":"\\ud800"}', '{"n":"?"}'),
        (b'{"n":123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
    ],
)
def test_arguments_that_are_not_json_for_others_are_made_so(written, sent):
    (called,) = sent_to(LOCAL, AssistantMessage((ToolCall("ls", written, "c1"),)))[0]["tool_calls"]
    assert called["function"]["arguments"] == sent


# ---- media of people and of tools


def parts_at(url, *blocks):
    return sent_to(url, UserMessage((Text("see"), *blocks)))[0]["content"][1:]


def as_text(data):
    return base64.b64encode(data).decode()


def test_an_image_is_sent_as_what_its_bytes_are():
    (sent,) = parts_at(LOCAL, Image(JPEG, "image/png"))
    assert sent["image_url"]["url"] == f"data:image/jpeg;base64,{as_text(JPEG)}"


def test_what_the_server_cannot_read_is_a_text_that_says_so():
    for url, block, words in [
        (LOCAL, Image(BMP), "image left out: image/bmp"),
        (OPENAI, Audio(FLAC), "audio left out: audio/flac"),
        (OPENAI, Video(MP4), "video left out: video/mp4"),
    ]:
        (sent,) = parts_at(url, block)
        assert words in sent["text"]


@pytest.mark.parametrize(
    ("url", "data", "form"), [(OPENAI, WAV, "wav"), (OPENAI, MP3, "mp3"), (LOCAL, WAV, "wav"), (LOCAL, FLAC, "flac")]
)
def test_audio_is_sent_with_the_name_of_its_format(url, data, form):
    assert parts_at(url, Audio(data, "audio/wav")) == [
        {"type": "input_audio", "input_audio": {"data": as_text(data), "format": form}}
    ]


def test_a_video_is_sent_to_servers_other_than_openai():
    assert parts_at(LOCAL, Video(MP4)) == [
        {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{as_text(MP4)}"}}
    ]


def test_a_document_is_sent_as_what_its_bytes_are():
    (sent,) = parts_at(LOCAL, Document(PDF, "application/octet-stream", "a.pdf"))
    assert sent["file"] == {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{as_text(PDF)}"}


def test_media_of_a_tool_are_shown_when_all_results_are_told():
    calls = AssistantMessage((ToolCall("record", {}, "c1"), ToolCall("ls", {}, "c2")))
    results = ToolMessage((Audio(WAV), Video(MP4)), "c1", "record"), ToolMessage("b", "c2", "ls")
    sent = sent_to(LOCAL, calls, *results)
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[3]["content"]] == ["text", "input_audio", "video_url"]


# ---- fields of other types


EVERYTHING = {
    "content": [thinking("a"), {"type": "text", "text": "so"}, "x"],
    "reasoning_content": "r",
    "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0} for text in ("a", "b")],
    "refusal": None,
    "extra_content": SIGNATURE,
    "images": [IMAGE],
    "audio": spoken(9),
    "annotations": [ANNOTATION, PARSED],
    "function_call": {"name": "ls", "arguments": "{}"},
    "tool_calls": [call("c1", "{}", index=0), CUSTOM | {"index": 1}],
}
ODD = [None, "", "x", 7, -1.5, True, [], {}, [None], ["x"], [[1]], {"text": {"text": "x"}}, {"type": 5}, 10**30]


def places(value, place=()):
    """Yield the path to each value in *value*."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*place, step)
        yield from places(inner, (*place, step))


def with_each_field_odd(whole):
    """Yield *whole* many times, each time with another value somewhere."""
    for place in places(whole):
        for odd in ODD:
            changed = copy.deepcopy(whole)
            target = changed
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = copy.deepcopy(odd)
            yield changed


@every_form
def test_a_field_of_any_type_neither_costs_the_answer_nor_the_next_request(stream):
    async def go():
        async with chat.connected("http://local.test/v1") as client:
            model = chat.model(client)
            model._body(client, HELLO)
            if stream:
                begins = [chunk(EVERYTHING), chunk(EVERYTHING), chunk({}, "stop")]
                answers = (
                    whole_of(model, events) for events in with_each_field_odd(begins) if all(map(is_object, events))
                )
            else:
                answers = with_each_field_odd(completion(EVERYTHING))
            return sum(went_back(model, client, answer) for answer in answers)

    assert asyncio.run(go()) > 1000


def whole_of(model, events):
    streamed = model._stream(lambda event: None)
    for event in events:
        streamed.add(event)
    return streamed.whole(done=True)


def is_object(event):
    return isinstance(event, dict)


def went_back(model, client, answer):
    """Whether there was a reply in the *answer*; then it is part of a next request."""
    try:
        reply = model._read(answer)
    except BadReply:
        return False
    request = chat.Request("", (*HELLO.messages, reply.message, UserMessage("go on")))
    return bool(encode(model._body(client, request)))
