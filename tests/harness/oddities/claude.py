"""Oddities of the Messages API behind gateways and compatible servers."""

import json
from typing import Any

from harness.oddities.rows import COUNTS, HI, INJECTED, LS, USAGES, Oddity, lines, sent_as
from harness.providers import Answer, json_answer, sse
from harness.wires import claude
from minideep import Overloaded, RateLimited, Usage
from minideep.errors import ModelError
from minideep.messages import UNKNOWN

START = {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 7}}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
STOP = {"type": "message_stop"}
WHOLE = claude.said(HI)
EVENTS = claude.events(WHOLE)
USE = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "a"}}
CALLED = claude.message(USE, stop="tool_use")


def framed(*events: dict[str, Any]) -> Answer:
    """A stream of blocks between its first and last events."""
    return sse(START, *events, END, STOP)


def begin(index: Any, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def said(index: Any, text: Any = HI) -> dict[str, Any]:
    return delta(index, "text_delta", text=text)


def written(index: Any, args: Any = '{"path": "a"}') -> dict[str, Any]:
    return delta(index, "input_json_delta", partial_json=args)


def counted(first: Any, last: Any) -> Answer:
    """A stream whose first and last events state these usages."""
    start = {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": first}}
    return sse(start, *claude.block_events(0, claude.text(HI)), END | {"usage": last}, STOP)


def stopped(reason: Any) -> tuple[Answer, Answer]:
    whole = WHOLE | {"stop_reason": reason}
    return json_answer(whole), sse(*claude.events(whole))


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


def ending(stop: Any, reason: str, source: str) -> Oddity:
    document, stream = stopped(reason)
    return Oddity(
        name=f"stop_reason is {reason!r}", source=source, document=document, stream=stream, text=HI, stop=stop
    )


TEXT = claude.block_events(0, claude.text(HI))
THOUGHT = {"type": "thinking", "thinking": "let me look", "signature": "c2lnbmVk"}

ROWS = [
    # ---- counts
    *(
        Oddity(
            name=f"counts are {what}",
            source=source,
            document=json_answer(WHOLE | {"usage": {"input_tokens": given, "output_tokens": taken}}),
            stream=counted({"input_tokens": given}, {"output_tokens": taken}),
            text=HI,
            usage=usage,
        )
        for what, (given, taken, usage, source) in COUNTS.items()
    ),
    *(
        Oddity(
            name=f"usage is {what}",
            source=source,
            document=json_answer(WHOLE | {"usage": usage}),
            stream=counted(usage, usage),
            text=HI,
            usage=UNKNOWN,
        )
        for what, (usage, source) in USAGES.items()
    ),
    Oddity(
        name="usage is missing",
        source=INJECTED,
        document=json_answer(without(WHOLE, "usage")),
        stream=sse(START | {"message": {"content": []}}, *TEXT, without(END, "usage"), STOP),
        text=HI,
        usage=UNKNOWN,
    ),
    Oddity(
        name="details of usage have other types",
        source=INJECTED,
        document=json_answer(
            WHOLE
            | {
                "usage": WHOLE["usage"]
                | {"service_tier": {"name": "standard"}, "cache_creation": "none", "server_tool_use": []}
            }
        ),
        stream=counted(
            {"input_tokens": 7, "service_tier": {"name": "standard"}},
            {"output_tokens": 3, "cache_creation": "none", "server_tool_use": []},
        ),
        text=HI,
    ),
    Oddity(
        name="the input is counted at the end only",
        source="https://github.com/sgl-project/sglang/pull/20685",
        stream=counted({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 7, "output_tokens": 3}),
        text=HI,
    ),
    Oddity(
        name="the last event says that there was no input",
        source="https://github.com/envoyproxy/ai-gateway/pull/1631",
        stream=counted({"input_tokens": 7, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 3}),
        text=HI,
    ),
    Oddity(
        name="the output is never counted",
        source=INJECTED,
        stream=counted({"input_tokens": 7, "output_tokens": 1}, None),
        text=HI,
        usage=Usage(7, 0, unknown=1),
    ),
    # ---- how a reply ends
    Oddity(
        name="stop_reason is null",
        source="https://github.com/Wei-Shaw/sub2api/pull/4589",
        document=stopped(None)[0],
        stream=stopped(None)[1],
        text=HI,
    ),
    Oddity(
        name="stop_reason is empty from the start",
        source="https://github.com/Wei-Shaw/sub2api/pull/4589",
        stream=sse(
            START | {"message": START["message"] | {"stop_reason": ""}},
            *TEXT,
            END | {"delta": {"stop_reason": ""}},
            STOP,
        ),
        text=HI,
    ),
    Oddity(
        name="stop_reason is missing",
        source=INJECTED,
        document=json_answer(without(WHOLE, "stop_reason", "type")),
        stream=sse(START, *TEXT, END | {"delta": {}}, STOP),
        text=HI,
    ),
    Oddity(
        name="there is no message_delta",
        source=INJECTED,
        stream=sse(START, *TEXT, STOP),
        text=HI,
        usage=Usage(7, 0, unknown=1),
    ),
    Oddity(
        name="there is no message_stop",
        source="https://github.com/esengine/DeepSeek-Reasonix/pull/8756",
        stream=sse(START, *TEXT, END),
        text=HI,
    ),
    ending("truncated", "length", INJECTED),
    ending("truncated", "model_length", "https://docs.mistral.ai/api/"),
    ending("truncated", "MAX_TOKENS", "https://ai.google.dev/api/generate-content#FinishReason"),
    ending("refused", "content_filter", "https://github.com/BerriAI/litellm/issues/6104"),
    ending("refused", "SAFETY", "https://ai.google.dev/api/generate-content#FinishReason"),
    ending("done", "stop", "https://github.com/agentgateway/agentgateway/pull/3283"),
    Oddity(
        name="a call that ends the turn",
        source="https://github.com/BerriAI/litellm/issues/34692",
        document=json_answer(CALLED | {"stop_reason": "end_turn"}),
        stream=sse(*claude.events(CALLED | {"stop_reason": "end_turn"})),
        calls=(LS,),
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
    Oddity(
        name="a stream instead of one document",
        source=INJECTED,
        document=sse(*EVENTS),
        text=HI,
    ),
    Oddity(
        name="events without names",
        source="https://github.com/earendil-works/pi/issues/1983",
        stream=sse(*map(json.dumps, EVENTS)),
        text=HI,
    ),
    Oddity(
        name="named events without data",
        source="https://github.com/NousResearch/hermes-agent/pull/35418",
        stream=lines("event: content_block_delta\n\n" + sse(*EVENTS).body.decode()),
        text=HI,
    ),
    Oddity(
        name="comments and pings between events",
        source="https://github.com/liushuangls/go-anthropic/pull/135",
        stream=lines(sse(*EVENTS).body.decode().replace("event:", ": keep-alive\n\nevent: ping\ndata: {}\n\nevent:")),
        text=HI,
    ),
    Oddity(
        name="lines that end with CR LF, and no blank after a colon",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines(sse(*EVENTS).body.decode().replace("\n", "\r\n").replace("data: ", "data:")),
        text=HI,
    ),
    Oddity(
        name="an id and a time to reconnect",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines("retry: 3000\n\n" + sse(*EVENTS).body.decode().replace("event:", "id: 1\nevent:")),
        text=HI,
    ),
    Oddity(
        name="[DONE] at the end",
        source="https://openrouter.ai/docs/api/reference/streaming",
        stream=sse(*EVENTS, "[DONE]"),
        text=HI,
    ),
    Oddity(
        name="[DONE] as a named event",
        source=INJECTED,
        stream=lines(sse(*EVENTS).body.decode() + "event: done\ndata: [DONE]\n\n"),
        text=HI,
    ),
    Oddity(
        name="no message_start",
        source="https://github.com/seifghazi/claude-code-proxy/pull/32",
        stream=sse(*TEXT, END | {"usage": {"input_tokens": 7, "output_tokens": 3}}, STOP),
        text=HI,
    ),
    Oddity(
        name="events of kinds that nobody knows",
        source="https://platform.claude.com/docs/en/build-with-claude/streaming",
        stream=framed(
            {"type": "weather"}, *TEXT, {"type": "content_block_delta", "index": 0, "delta": {"type": "new"}}
        ),
        text=HI,
    ),
    # ---- blocks
    Oddity(
        name="content is a text",
        source="https://github.com/lingarr-translate/lingarr/pull/395",
        document=json_answer(WHOLE | {"content": HI}),
        text=HI,
    ),
    Oddity(
        name="content is null",
        source=INJECTED,
        document=json_answer(WHOLE | {"content": None}),
        stream=sse(START | {"message": START["message"] | {"content": None}}, END, STOP),
    ),
    Oddity(
        name="a text block begins without text",
        source="https://github.com/BerriAI/litellm/pull/28069",
        stream=framed(begin(0, type="text"), said(0)),
        text=HI,
    ),
    Oddity(
        name="the text of a block is null",
        source=INJECTED,
        document=json_answer(claude.message({"type": "text", "text": None}, claude.text(HI))),
        stream=framed(begin(0, type="text", text=None), said(0, None), said(0)),
        text=HI,
        has_more=True,
    ),
    Oddity(
        name="a thinking block begins without thinking",
        source="https://github.com/BerriAI/litellm/pull/28116",
        stream=framed(
            begin(0, type="thinking"),
            delta(0, "thinking_delta", thinking="let me look"),
            begin(1, type="text"),
            said(1),
        ),
        text=HI,
        thinking="let me look",
    ),
    Oddity(
        name="thinking without a signature",
        source="https://github.com/NousResearch/hermes-agent/issues/22313",
        document=json_answer(claude.message(without(THOUGHT, "signature"), claude.text(HI))),
        stream=framed(
            begin(0, type="thinking", thinking=""),
            delta(0, "thinking_delta", thinking="let me look"),
            begin(1, **claude.text("")),
            said(1),
        ),
        text=HI,
        thinking="let me look",
        back=("let me look",),
    ),
    Oddity(
        name="a text delta without a block",
        source="https://github.com/ollama/ollama/issues/17101",
        stream=framed(said(0)),
        text=HI,
    ),
    Oddity(
        name="a thinking delta without a block",
        source="https://github.com/ollama/ollama/issues/17101",
        stream=framed(delta(0, "thinking_delta", thinking="let me look"), begin(1, type="text", text=""), said(1)),
        text=HI,
        thinking="let me look",
    ),
    Oddity(
        name="text deltas at the index of the thinking block",
        source="https://github.com/Oaklight/llm-rosetta/issues/246",
        stream=framed(
            begin(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="let me look"),
            said(0),
        ),
        text=HI,
        thinking="let me look",
    ),
    Oddity(
        name="thinking begins at the index of a text that goes on",
        source="https://github.com/ollama/ollama/pull/17225",
        stream=framed(
            begin(0, type="text", text=""),
            said(0, "---\n"),
            begin(0, type="thinking", thinking=""),
            delta(0, "thinking_delta", thinking="let me look"),
            begin(1, type="text", text=""),
            said(1),
        ),
        text="---\nhi there",
        thinking="let me look",
    ),
    Oddity(
        name="one index for all blocks",
        source="https://github.com/anthropics/anthropic-sdk-typescript/issues/879",
        stream=framed(
            *TEXT,
            begin(0, **USE | {"input": {}}),
            written(0),
            begin(0, **USE | {"id": "toolu_2", "input": {}}),
            written(0),
        ),
        text=HI,
        calls=(LS, LS),
    ),
    Oddity(
        name="no index at all",
        source=INJECTED,
        stream=framed(
            *(without(event, "index") for event in (*TEXT, begin(0, **USE | {"input": {}}), written(0))),
        ),
        text=HI,
        calls=(LS,),
    ),
    Oddity(
        name="indices with a gap",
        source="https://github.com/jundot/omlx/pull/1356",
        stream=framed(*TEXT, begin(2, **USE | {"input": {}}), written(2)),
        text=HI,
        calls=(LS,),
    ),
    Oddity(
        name="an empty text before a call",
        source="https://github.com/BerriAI/litellm/issues/34692",
        document=json_answer(claude.message(claude.text(""), USE, stop="tool_use")),
        stream=framed(begin(0, type="text", text=""), begin(1, **USE | {"input": {}}), written(1)),
        calls=(LS,),
    ),
    Oddity(
        name="citations that are null",
        source=INJECTED,
        document=json_answer(claude.message(claude.text(HI) | {"citations": None})),
        stream=framed(
            begin(0, type="text", text="", citations=None), said(0), delta(0, "citations_delta", citation=None)
        ),
        text=HI,
    ),
    # ---- calls
    Oddity(
        name="arguments as a text",
        source="https://github.com/Portkey-AI/gateway/issues/768",
        document=json_answer(claude.message(USE | {"input": '{"path": "a"}'}, stop="tool_use")),
        stream=framed(begin(0, **USE | {"input": '{"path": "a"}'})),
        calls=(LS,),
    ),
    Oddity(
        name="arguments in the first event of the block only",
        source=INJECTED,
        stream=framed(begin(0, **USE)),
        calls=(LS,),
    ),
    Oddity(
        name="arguments in the first event of the block and in deltas",
        source=INJECTED,
        stream=framed(begin(0, **USE), written(0)),
        calls=(LS,),
    ),
    Oddity(
        name="arguments as an object in a delta",
        source=INJECTED,
        stream=framed(begin(0, **USE | {"input": {}}), written(0, {"path": "a"})),
        calls=(LS,),
    ),
    Oddity(
        name="arguments are null",
        source=INJECTED,
        document=json_answer(claude.message(USE | {"input": None}, stop="tool_use")),
        stream=framed(begin(0, **USE | {"input": None}), written(0, None)),
        calls=(("ls", {}),),
    ),
    Oddity(
        name="arguments are missing",
        source="https://github.com/vllm-project/vllm-ascend/pull/10361",
        document=json_answer(claude.message(without(USE, "input"), stop="tool_use")),
        stream=framed(begin(0, **without(USE, "input"))),
        calls=(("ls", {}),),
    ),
    Oddity(
        name="arguments that were cut",
        source="https://github.com/14790897/MiqroForge-Desktop/pull/1100",
        stream=framed(begin(0, **USE | {"input": {}}), written(0, '{"path": ')),
        calls=(("ls", {}),),
        malformed='{"path": ',
    ),
    *(
        Oddity(
            name=f"the id of a call is {what}",
            source="https://github.com/anomalyco/opencode/issues/37841",
            document=json_answer(claude.message(use, stop="tool_use")),
            stream=framed(begin(0, **use | {"input": {}}), written(0)),
            calls=(LS,),
        )
        for what, use in {"null": USE | {"id": None}, "empty": USE | {"id": ""}, "missing": without(USE, "id")}.items()
    ),
    Oddity(
        name="two calls with one id",
        source=INJECTED,
        document=json_answer(claude.message(USE, USE, stop="tool_use")),
        stream=sse(*claude.events(claude.message(USE, USE, stop="tool_use"))),
        calls=(LS, LS),
    ),
    Oddity(
        name="the name of a call is null",
        source="https://github.com/open-webui/open-webui/pull/29690",
        document=json_answer(claude.message(USE | {"name": None}, stop="tool_use")),
        stream=framed(begin(0, **USE | {"name": None, "input": {}}), written(0)),
        calls=(("", {"path": "a"}),),
    ),
    Oddity(
        name="a name that the model made up",
        source="https://github.com/anomalyco/opencode/issues/48750",
        document=json_answer(claude.message(USE | {"name": "weather<|channel|>json"}, stop="tool_use")),
        stream=sse(*claude.events(claude.message(USE | {"name": "weather<|channel|>json"}, stop="tool_use"))),
        calls=(("weather<|channel|>json", {"path": "a"}),),
    ),
    Oddity(
        name="the input of a server's tool that was cut",
        source=INJECTED,
        stream=framed(
            *TEXT,
            begin(1, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
            written(1, '{"query": "we'),
        ),
        text=HI,
        has_more=True,
    ),
    # ---- errors of status 200
    Oddity(
        name="an error in a document",
        source="https://platform.claude.com/docs/en/build-with-claude/streaming",
        document=json_answer({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded now"}}),
        stream=json_answer({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded now"}}),
        error=Overloaded,
        words=("Overloaded now",),
    ),
    Oddity(
        name="an error that is a text",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/266",
        document=json_answer({"error": "The model has crashed"}),
        stream=sse(START, {"type": "error", "error": "The model has crashed"}),
        error=ModelError,
        words=("The model has crashed",),
    ),
    Oddity(
        name="an error that is no JSON",
        source=INJECTED,
        stream=lines(sse(START).body.decode() + "event: error\ndata: upstream gone\n\n"),
        error=ModelError,
        words=("upstream gone",),
    ),
    Oddity(
        name="an error without an event's name",
        source="https://github.com/earendil-works/pi/issues/1983",
        stream=sse(START, json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}})),
        error=RateLimited,
        words=("slow down",),
    ),
    Oddity(
        name="a code and a message without an error",
        source="https://docs.z.ai/api-reference/api-code",
        document=json_answer({"code": 1302, "msg": "rate limit reached", "success": False}),
        stream=json_answer({"code": 1302, "msg": "rate limit reached", "success": False}),
        error=RateLimited,
        words=("rate limit reached",),
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
        words=("claude-x: ",),
    ),
]
