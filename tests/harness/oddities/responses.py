"""Oddities of the Responses API behind gateways and compatible servers."""

import json
from typing import Any

from harness.oddities.rows import COUNTS, HI, INJECTED, LS, USAGES, Oddity, lines, sent_as
from harness.providers import Answer, json_answer, sse
from harness.wires import responses
from minideep import Overloaded, RateLimited
from minideep.errors import ModelError
from minideep.messages import UNKNOWN

WHOLE = responses.said(HI)
EVENTS = responses.events(WHOLE)
CALL = responses.call("call_1", '{"path": "a"}')
CALLED = responses.response(CALL)
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
LET = "let me look"
CITED = {"type": "url_citation", "url": "https://example.com/a", "title": "A", "start_index": 0, "end_index": 2}


def both(whole: dict[str, Any]) -> dict[str, Answer]:
    """One answer in both forms; the stream sends each item whole."""
    items = [done(at, item) for at, item in enumerate(whole["output"])]
    return {
        "document": json_answer(whole),
        "stream": sse(CREATED, *items, {"type": f"response.{whole['status']}", "response": whole}),
    }


def ended(*events: dict[str, Any], **fields: Any) -> Answer:
    """A stream of these events, and a last one that repeats no items."""
    whole = WHOLE | {"output": []} | fields
    return sse(CREATED, *events, {"type": "response.completed", "response": whole})


def part(text: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text, **fields}


def done(at: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


def saying(content: Any, **fields: Any) -> dict[str, Answer]:
    return both(responses.response(responses.message("") | {"content": content} | fields))


def calling(**fields: Any) -> dict[str, Answer]:
    return both(responses.response(CALL | fields))


def last(**fields: Any) -> Answer:
    """A stream whose last event holds the whole response with these fields, or without those that are `...`."""
    whole = {name: value for name, value in (WHOLE | fields).items() if value is not ...}
    return sse(*EVENTS[:-1], {"type": "response.completed", "response": whole})


def thinking(**fields: Any) -> dict[str, Answer]:
    return both(responses.response({"type": "reasoning", "id": "rs_1"} | fields, responses.message(HI)))


ROWS = [
    # ---- counts
    *(
        Oddity(
            name=f"counts are {what}",
            source=source,
            **both(WHOLE | {"usage": {"input_tokens": given, "output_tokens": taken}}),
            text=HI,
            usage=usage,
        )
        for what, (given, taken, usage, source) in COUNTS.items()
    ),
    *(
        Oddity(name=f"usage is {what}", source=source, **both(WHOLE | {"usage": usage}), text=HI, usage=UNKNOWN)
        for what, (usage, source) in USAGES.items()
    ),
    Oddity(
        name="usage is missing",
        source="https://github.com/decolua/9router/pull/3297",
        document=json_answer(without(WHOLE, "usage")),
        stream=last(usage=...),
        text=HI,
        usage=UNKNOWN,
    ),
    Oddity(
        name="details of usage are null or of other types",
        source="https://github.com/ggml-org/llama.cpp/issues/22659",
        **both(
            WHOLE
            | {
                "usage": WHOLE["usage"] | {"input_tokens_details": None, "output_tokens_details": [1]},
                "service_tier": {},
            }
        ),
        text=HI,
    ),
    # ---- how a reply ends
    *(
        Oddity(
            name=f"status is {what}",
            source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1089",
            document=json_answer(whole),
            stream=sse(*EVENTS[:-1], {"type": "response.completed", "response": whole}),
            text=HI,
        )
        for what, whole in {"missing": without(WHOLE, "status"), "null": WHOLE | {"status": None}}.items()
    ),
    Oddity(
        name="the last event says that the response is in progress",
        source="https://github.com/github/copilot-sdk/pull/2010",
        stream=last(status="in_progress"),
        text=HI,
    ),
    Oddity(
        name="response.done ends a stream",
        source="https://github.com/can1357/oh-my-pi/pull/4692",
        stream=sse(*EVENTS[:-1], EVENTS[-1] | {"type": "response.done"}),
        text=HI,
    ),
    Oddity(
        name="[DONE] ends a stream without a last event",
        source="https://github.com/vllm-project/vllm/pull/25719",
        stream=sse(*EVENTS[:-1], "[DONE]"),
        text=HI,
        usage=UNKNOWN,
    ),
    Oddity(
        name="[DONE] after the last event",
        source="https://github.com/vllm-project/agentic-api/issues/168",
        stream=sse(*EVENTS, "[DONE]"),
        text=HI,
    ),
    *(
        Oddity(
            name=f"incomplete for {details}",
            source=source,
            text=HI,
            stop=stop,
            **both(WHOLE | {"status": "incomplete", "incomplete_details": details}),
        )
        for details, stop, source in [
            (None, "truncated", INJECTED),
            ({}, "truncated", INJECTED),
            ({"reason": "max_output_tokens"}, "truncated", "https://platform.openai.com/docs/guides/reasoning"),
            ({"reason": "max_tokens"}, "truncated", "https://github.com/langwatch/langwatch/pull/6207"),
            (
                {"reason": "content_filter"},
                "refused",
                "https://platform.openai.com/docs/api-reference/responses/object",
            ),
        ]
    ),
    # ---- the form of an answer
    *(
        Oddity(
            name=f"one document as {kind} instead of a stream",
            source="https://github.com/esengine/DeepSeek-Reasonix/pull/8870",
            stream=sent_as(WHOLE, kind),
            text=HI,
        )
        for kind in ("application/json", "text/plain; charset=utf-8", "text/event-stream", None)
    ),
    Oddity(name="a stream instead of one document", source=INJECTED, document=sse(*EVENTS), text=HI),
    Oddity(
        name="events without names",
        source="https://github.com/vllm-project/agentic-api/issues/168",
        stream=sse(*map(json.dumps, EVENTS)),
        text=HI,
    ),
    Oddity(
        name="comments and keep-alive events between events",
        source="https://github.com/openai/openai-go/issues/227",
        stream=lines(
            sse(*EVENTS)
            .body.decode()
            .replace("event:", ': keep-alive\n\nevent: keepalive\ndata: {"type":"keepalive"}\n\nevent:')
        ),
        text=HI,
    ),
    Oddity(
        name="an id and a time to reconnect",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines("retry: 3000\n\n" + sse(*EVENTS).body.decode().replace("event:", "id: 1\nevent:")),
        text=HI,
    ),
    Oddity(
        name="lines that end with CR LF, and no blank after a colon",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines(sse(*EVENTS).body.decode().replace("\n", "\r\n").replace("data: ", "data:")),
        text=HI,
    ),
    Oddity(
        name="the last event holds no items",
        source="https://github.com/QuantumNous/new-api/issues/4362",
        stream=last(output=[]),
        text=HI,
    ),
    Oddity(
        name="the last event has no output",
        source="https://github.com/open-webui/open-webui/pull/27800",
        stream=last(output=...),
        text=HI,
    ),
    Oddity(
        name="nothing but text deltas",
        source="https://github.com/mnfst/llm-gateway/issues/2064",
        stream=ended(part("hi "), part("there")),
        text=HI,
    ),
    Oddity(
        name="text deltas and the whole text, but no item",
        source="https://github.com/mnfst/llm-gateway/issues/2064",
        stream=ended(part("hi "), part("there"), {"type": "response.output_text.done", "output_index": 0, "text": HI}),
        text=HI,
    ),
    Oddity(
        name="a call that begins as an item and goes on in deltas only",
        source="https://github.com/vllm-project/vllm/pull/44348",
        stream=ended(
            {"type": "response.output_item.added", "output_index": 0, "item": CALL | {"arguments": ""}},
            *(
                {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece}
                for piece in ('{"path"', ': "a"}')
            ),
        ),
        calls=(LS,),
    ),
    Oddity(
        name="a call whose arguments come whole at the end only",
        source="https://github.com/anomalyco/opencode/pull/44862",
        stream=ended(
            {"type": "response.output_item.added", "output_index": 0, "item": CALL | {"arguments": ""}},
            {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"path": "a"}'},
        ),
        calls=(LS,),
    ),
    Oddity(
        name="items that are done in another order",
        source="https://github.com/ENTERPILOT/GoModel/pull/831",
        stream=ended(done(1, CALL), done(0, responses.message(HI))),
        text=HI,
        calls=(LS,),
        back=('"content": "hi there"',),
    ),
    Oddity(
        name="deltas without an index",
        source="https://github.com/mnfst/llm-gateway/issues/2064",
        stream=sse(*(without(event, "output_index") for event in responses.events(CALLED))),
        calls=(LS,),
    ),
    *(
        Oddity(
            name=f"a delta that is {what}",
            source="https://github.com/BerriAI/litellm/pull/39288",
            stream=sse(
                *responses.events(CALLED)[:2],
                part(delta),
                {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": delta},
                *responses.events(CALLED)[2:],
            ),
            calls=(LS,),
        )
        for what, delta in {"empty": "", "null": None, "an object": {"path": "a"}}.items()
    ),
    # ---- items
    Oddity(
        name="content is a text",
        source="https://github.com/routatic/proxy/pull/163",
        document=saying(HI)["document"],
        stream=sse(
            *EVENTS[:-1],
            {"type": "response.completed", "response": responses.response(responses.message("") | {"content": HI})},
        ),
        text=HI,
    ),
    Oddity(name="content is a list of texts", source=INJECTED, **saying([HI]), text=HI),
    Oddity(name="content is one part", source=INJECTED, **saying({"type": "output_text", "text": HI}), text=HI),
    Oddity(name="content is null", source=INJECTED, **saying(None)),
    Oddity(
        name="a part of type text without annotations",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1089",
        **saying([{"type": "text", "text": HI}]),
        text=HI,
    ),
    Oddity(
        name="the text of a part is null",
        source="https://github.com/router-for-me/CLIProxyAPI/issues/3064",
        **saying([{"type": "output_text", "text": None}, {"type": "output_text", "text": HI}]),
        text=HI,
    ),
    Oddity(
        name="a message without a type",
        source=INJECTED,
        **both(responses.response(without(responses.message(HI), "type", "id", "status"))),
        text=HI,
    ),
    Oddity(
        name="output_text beside an empty output",
        source="https://github.com/router-for-me/CLIProxyAPI/issues/3064",
        **both(WHOLE | {"output_text": HI}),
        text=HI,
    ),
    Oddity(
        name="sources of a text",
        source="https://github.com/vercel/ai/issues/17379",
        **saying([{"type": "output_text", "text": HI, "annotations": [CITED, {"type": "not_yet_invented"}, None]}]),
        text=HI,
        cited=("https://example.com/a", ""),
    ),
    Oddity(
        name="annotations that are null",
        source="https://github.com/ENTERPILOT/GoModel/pull/831",
        **saying([{"type": "output_text", "text": HI, "annotations": None}]),
        text=HI,
        has_more=True,
    ),
    Oddity(
        name="a refusal",
        source="https://platform.openai.com/docs/guides/structured-outputs",
        **both(responses.response(responses.REFUSED)),
        text="I cannot",
        stop="refused",
    ),
    Oddity(
        name="a summary that is null",
        source="https://github.com/ENTERPILOT/GoModel/pull/831",
        text=HI,
        has_more=True,
        **thinking(summary=None),
    ),
    Oddity(name="a summary that is a text", source=INJECTED, **thinking(summary=LET), text=HI, thinking=LET),
    Oddity(
        name="reasoning in its content",
        source="https://github.com/vllm-project/vllm/issues/51641",
        **thinking(summary=[], content=[{"type": "reasoning_text", "text": LET}]),
        text=HI,
        thinking=LET,
    ),
    Oddity(name="reasoning whose content is a text", source=INJECTED, **thinking(content=LET), text=HI, thinking=LET),
    Oddity(
        name="an item that nobody knows",
        source=INJECTED,
        **both(responses.response({"type": "weather_call", "id": "w_1", "sun": True}, responses.message(HI))),
        text=HI,
        back=('"sun": true',),
    ),
    # ---- calls
    Oddity(
        name="arguments as an object",
        source="https://github.com/ggml-org/llama.cpp/issues/20198",
        document=calling(arguments={"path": "a"})["document"],
        stream=sse(
            CREATED,
            done(0, CALL | {"arguments": {"path": "a"}}),
            {"type": "response.completed", "response": CALLED | {"output": []}},
        ),
        calls=(LS,),
    ),
    *(
        Oddity(
            name=f"arguments are {what}",
            source="https://github.com/vllm-project/vllm/issues/9693",
            document=json_answer(responses.response(call)),
            stream=ended(done(0, call)),
            calls=(("ls", {}),),
        )
        for what, call in {
            "null": CALL | {"arguments": None},
            "empty": CALL | {"arguments": ""},
            "missing": without(CALL, "arguments"),
        }.items()
    ),
    *(
        Oddity(
            name=f"arguments are the text {text!r}",
            source="https://github.com/ggml-org/llama.cpp/issues/22072",
            **calling(arguments=text),
            calls=(("ls", {}),),
            malformed=text,
        )
        for text in ("[1]", '{"path": ', "a")
    ),
    *(
        Oddity(
            name=f"the id of a call is {what}",
            source="https://github.com/anomalyco/opencode/issues/37841",
            document=json_answer(responses.response(call)),
            stream=ended(done(0, call)),
            calls=(LS,),
        )
        for what, call in {
            "null": CALL | {"call_id": None},
            "empty": CALL | {"call_id": ""},
            "missing": without(CALL, "call_id"),
        }.items()
    ),
    Oddity(name="two calls with one id", source=INJECTED, **both(responses.response(CALL, CALL)), calls=(LS, LS)),
    Oddity(
        name="the name of a call is null",
        source="https://github.com/open-webui/open-webui/pull/29690",
        **calling(name=None),
        calls=(("", {"path": "a"}),),
    ),
    Oddity(
        name="a name that the model made up",
        source="https://github.com/anomalyco/opencode/issues/48750",
        **calling(name="browser.tabs.open"),
        calls=(("browser.tabs.open", {"path": "a"}),),
    ),
    Oddity(
        name="reasoning that was cut, with nothing behind it",
        source="https://github.com/raullenchai/Rapid-MLX/pull/866",
        **both(
            responses.response(
                responses.reasoning(LET), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
            )
        ),
        thinking=LET,
        stop="truncated",
    ),
    # ---- errors of status 200
    *(
        Oddity(
            name=f"an error that is {what}",
            source=source,
            document=json_answer({"error": error}),
            stream=sse(CREATED, {"type": "error", "error": error}),
            error=kind,
            words=words,
        )
        for what, error, kind, words, source in [
            (
                "a text",
                "The model has crashed",
                ModelError,
                ("The model has crashed",),
                "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/266",
            ),
            (
                "numbered",
                {"code": 429, "message": "slow down"},
                RateLimited,
                ("slow down",),
                "https://openrouter.ai/docs/api/reference/errors-and-debugging",
            ),
            (
                "numbered as a text",
                {"code": "529", "message": "busy"},
                Overloaded,
                ("busy",),
                "https://openrouter.ai/docs/api/reference/errors-and-debugging",
            ),
        ]
    ),
    Oddity(
        name="a response that failed without an error",
        source=INJECTED,
        document=json_answer(WHOLE | {"status": "failed", "output": []}),
        stream=sse(CREATED, {"type": "response.failed", "response": WHOLE | {"status": "failed", "output": []}}),
        error=ModelError,
        words=("failed",),
    ),
    Oddity(
        name="a response in the background",
        source="https://platform.openai.com/docs/guides/background",
        document=json_answer(WHOLE | {"status": "queued", "output": []}),
        error=ModelError,
        words=("queued",),
    ),
    Oddity(
        name="output is null",
        source=INJECTED,
        document=json_answer(WHOLE | {"output": None}),
        error=ModelError,
        words=("output",),
    ),
    Oddity(
        name="an error event in the middle of another event",
        source="https://github.com/Wei-Shaw/sub2api/issues/1471",
        stream=lines(
            sse(*EVENTS[:-1]).body.decode()
            + 'data: {"type": "response.comp\ndata: {"type": "error", "message": "read error"}\n\n'
        ),
        error=ModelError,
        words=("gpt-x: ",),
    ),
    Oddity(
        name="a page instead of an answer",
        source="https://github.com/QwenLM/qwen-code/issues/6465",
        document=sent_as("<html><head><title>Request blocked</title></head></html>", "text/html"),
        stream=sent_as("<html><head><title>Request blocked</title></head></html>", "text/html"),
        error=ModelError,
        words=("Request blocked",),
    ),
    Oddity(
        name="an empty body",
        source="https://github.com/preloop/preloop/issues/109",
        document=sent_as(""),
        stream=lines(""),
        error=ModelError,
        words=("gpt-x: ",),
    ),
]
