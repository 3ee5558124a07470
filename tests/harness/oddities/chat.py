"""Oddities of Chat Completions, as a dozen servers and gateways speak it."""

import json
import math
from typing import Any

from harness.oddities.rows import COUNTS, HI, INJECTED, LS, USAGES, Oddity, lines, sent_as
from harness.providers import Answer, json_answer, sse
from harness.wires import chat
from minideep import AuthenticationFailed, ContextOverflow, Overloaded, RateLimited, Usage
from minideep.errors import ModelError
from minideep.messages import UNKNOWN

WHOLE = chat.said(HI)
EVENTS = chat.events(WHOLE)
CALL = chat.call("call_1", '{"path": "a"}')
USED = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
LET = "let me look"
FUNCTION = {"name": "ls", "arguments": '{"path": "a"}'}


def both(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Answer]:
    """One answer in both forms; the stream sends each field of the message in one piece."""
    whole = chat.completion(message, finish, **fields)
    return {"document": json_answer(whole), "stream": streamed(message, finish=finish, **fields)}


def streamed(*deltas: Any, finish: str | None = "stop", **fields: Any) -> Answer:
    """A stream of these deltas, a finish reason, and counts."""
    return sse(*map(chat.chunk, deltas), chat.chunk({}, finish), USED | fields, "[DONE]")


def calling(*calls: Any, finish: str = "tool_calls") -> Answer:
    """A document with these calls."""
    return json_answer(chat.completion({"tool_calls": list(calls)}, finish))


def parts(*calls: dict[str, Any], finish: str = "tool_calls") -> Answer:
    """A stream in which each of these parts of calls comes alone."""
    return streamed(*({"tool_calls": [call]} for call in calls), finish=finish)


def part(arguments: Any, name: Any = ..., **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({} if name is ... else {"name": name})
    return {"type": "function", "function": function, **fields}


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


def finishing(stop: Any, reason: str | None, source: str) -> Oddity:
    return Oddity(
        name=f"finish_reason is {reason!r}", source=source, **both({"content": HI}, reason), text=HI, stop=stop
    )


def counted(name: str, source: str, usage: dict[str, Any], expected: Usage) -> Oddity:
    usage = {"prompt_tokens": 7, "completion_tokens": 3} | usage
    return Oddity(name=name, source=source, **both({"content": HI}, usage=usage), text=HI, usage=expected)


CITED = {
    "type": "url_citation",
    "url_citation": {"url": "https://example.com/a", "title": "A", "start_index": 0, "end_index": 2},
}
FAILED_CALL = {
    "message": "Failed to call a function. Please adjust your prompt.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": '{"name": "ls", "arguments": {"path": "a"}}',
}
PAGE = "<html><head><title>Request blocked</title></head><body>by the gateway</body></html>"

ROWS = [
    # ---- counts
    *(
        Oddity(
            name=f"counts are {what}",
            source=source,
            **both({"content": HI}, usage={"prompt_tokens": given, "completion_tokens": taken}),
            text=HI,
            usage=usage,
        )
        for what, (given, taken, usage, source) in COUNTS.items()
    ),
    *(
        Oddity(name=f"usage is {what}", source=source, **both({"content": HI}, usage=usage), text=HI, usage=UNKNOWN)
        for what, (usage, source) in USAGES.items()
    ),
    Oddity(
        name="usage is missing",
        source="https://github.com/decolua/9router/pull/3297",
        document=json_answer(without(WHOLE, "usage")),
        stream=sse(*EVENTS[:-2], "[DONE]"),
        text=HI,
        usage=UNKNOWN,
    ),
    counted(
        "cached tokens of Mistral",
        "https://github.com/vercel/ai/issues/14382",
        {"num_cached_tokens": 5},
        Usage(7, 3, 5),
    ),
    counted(
        "cached tokens under a misspelt name of Mistral",
        "https://github.com/vercel/ai/pull/14419",
        {"prompt_token_details": {"cached_tokens": 5}},
        Usage(7, 3, 5),
    ),
    counted(
        "cached tokens of DeepSeek",
        "https://github.com/langchain-ai/langchain/pull/39668",
        {"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 2},
        Usage(7, 3, 5),
    ),
    counted(
        "cached tokens of Kimi", "https://platform.moonshot.ai/docs/api/chat", {"cached_tokens": 5}, Usage(7, 3, 5)
    ),
    counted(
        "details of usage that are null",
        "https://github.com/ggml-org/llama.cpp/issues/22659",
        {"prompt_tokens_details": None, "completion_tokens_details": None, "cost": None},
        Usage(7, 3),
    ),
    Oddity(
        name="usage in the choice",
        source="https://github.com/earendil-works/pi/issues/2017",
        document=json_answer({"choices": [WHOLE["choices"][0] | {"usage": WHOLE["usage"]}]}),
        stream=sse(*EVENTS[:-3], chat.chunk({}, "stop", usage=WHOLE["usage"]), "[DONE]"),
        text=HI,
    ),
    Oddity(
        name="usage in x_groq",
        source="https://github.com/vercel/ai/issues/1651",
        stream=sse(
            *EVENTS[:-3], chat.chunk({}, "stop") | {"x_groq": {"id": "req_1", "usage": WHOLE["usage"]}}, "[DONE]"
        ),
        text=HI,
    ),
    Oddity(
        name="usage in each chunk",
        source="https://github.com/sgl-project/sglang/pull/20830",
        stream=sse(
            *(
                chat.chunk({"content": text}) | {"usage": {"prompt_tokens": 7, "completion_tokens": at}}
                for at, text in enumerate(("hi ", "there"))
            ),
            chat.chunk({}, "stop") | {"usage": WHOLE["usage"]},
            "[DONE]",
        ),
        text=HI,
    ),
    Oddity(
        name="usage in a chunk without choices",
        source="https://github.com/router-for-me/CLIProxyAPI/pull/2531",
        stream=sse(*EVENTS[:-2], {"usage": WHOLE["usage"]}, "[DONE]"),
        text=HI,
    ),
    Oddity(
        name="usage after [DONE]",
        source=INJECTED,
        stream=sse(*EVENTS[:-2], "[DONE]", USED),
        text=HI,
        usage=UNKNOWN,
    ),
    # ---- how a reply ends
    finishing("truncated", "model_length", "https://docs.mistral.ai/api/"),
    finishing("truncated", "max_tokens", "https://github.com/cheahjs/free-llm-api-resources"),
    finishing("truncated", "MAX_TOKENS", "https://ai.google.dev/api/generate-content#FinishReason"),
    finishing("truncated", "model_context_window_exceeded", "https://github.com/anomalyco/opencode/pull/18814"),
    finishing("refused", "SAFETY", "https://ai.google.dev/api/generate-content#FinishReason"),
    finishing("refused", "RECITATION", "https://ai.google.dev/api/generate-content#FinishReason"),
    finishing("refused", "PROHIBITED_CONTENT", "https://ai.google.dev/api/generate-content#FinishReason"),
    finishing("refused", "sensitive", "https://docs.z.ai/api-reference/llm/chat-completion"),
    finishing("done", "eos", "https://github.com/vespa-engine/vespa/pull/33327"),
    finishing("done", "STOP", "https://ai.google.dev/api/generate-content#FinishReason"),
    finishing("done", "", "https://github.com/openclaw/openclaw/issues/91604"),
    finishing("done", None, "https://github.com/sgl-project/sglang/issues/4550"),
    Oddity(
        name="no finish_reason, but [DONE]",
        source="https://github.com/sgl-project/sglang/issues/4550",
        document=json_answer(WHOLE | {"choices": [without(WHOLE["choices"][0], "finish_reason")]}),
        stream=sse(*EVENTS[:-3], USED, "[DONE]"),
        text=HI,
    ),
    Oddity(
        name="no [DONE]",
        source="https://github.com/agentgateway/agentgateway/issues/1490",
        stream=sse(*EVENTS[:-1]),
        text=HI,
    ),
    Oddity(
        name="[DONE] without a blank line behind it",
        source="https://github.com/darshi1337/apogee/pull/139",
        stream=lines(sse(*EVENTS).body.decode().rstrip()),
        text=HI,
    ),
    Oddity(
        name="a finish_reason in each chunk",
        source="https://github.com/lhenault/simpleAI/issues/39",
        stream=sse(*(chat.chunk({"content": text}, "stop") for text in ("hi ", "there")), USED, "[DONE]"),
        text=HI,
    ),
    Oddity(
        name="calls that end with stop",
        source="https://github.com/googleapis/python-genai/issues/2868",
        document=calling(CALL, finish="stop"),
        stream=parts(CALL | {"index": 0}, finish="stop"),
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
        source="https://github.com/abetlen/llama-cpp-python/issues/133",
        document=sse(*EVENTS),
        text=HI,
    ),
    Oddity(
        name="a stream as text/plain",
        source="https://github.com/agentgateway/agentgateway/issues/1490",
        stream=sent_as(sse(*EVENTS).body, "text/plain"),
        text=HI,
    ),
    Oddity(
        name="empty lines before a document",
        source="https://api-docs.deepseek.com/quick_start/rate_limit",
        document=sent_as("\n\n\n" + json.dumps(WHOLE)),
        stream=sent_as("\n\n\n" + json.dumps(WHOLE)),
        text=HI,
    ),
    Oddity(
        name="comments before the first event",
        source="https://github.com/openai/openai-go/issues/227",
        stream=lines(": OPENROUTER PROCESSING\n\n" * 3 + sse(*EVENTS).body.decode()),
        text=HI,
    ),
    Oddity(
        name="comments sent as data",
        source="https://github.com/mnfst/llm-gateway/issues/2053",
        stream=lines("data: : OPENROUTER PROCESSING\n\n" + sse(*EVENTS).body.decode()),
        text=HI,
    ),
    Oddity(
        name="a time to reconnect, and ids",
        source="https://github.com/openai/openai-python/pull/2933",
        stream=lines("retry: 3000\n\n" + sse(*EVENTS).body.decode().replace("data:", "id: 1\ndata:")),
        text=HI,
    ),
    Oddity(
        name="named events without data",
        source="https://github.com/openai/openai-python/pull/2933",
        stream=lines("event: ping\n\n" + sse(*EVENTS).body.decode()),
        text=HI,
    ),
    Oddity(
        name="lines that end with CR LF, and no blank after a colon",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines(sse(*EVENTS).body.decode().replace("\n", "\r\n").replace("data: ", "data:")),
        text=HI,
    ),
    Oddity(
        name="lines that end with CR",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines(sse(*EVENTS).body.decode().replace("\n", "\r")),
        text=HI,
    ),
    Oddity(
        name="a byte order mark",
        source="https://html.spec.whatwg.org/multipage/server-sent-events.html",
        stream=lines("\ufeff" + sse(*EVENTS).body.decode()),
        text=HI,
    ),
    Oddity(
        name="a line of a million characters",
        source=INJECTED,
        **both({"content": "x" * 1_000_000}),
        text="x" * 1_000_000,
    ),
    Oddity(
        name="a first chunk with nothing but a filter's results",
        source="https://github.com/AbanteAI/archive-old-cli-mentat/issues/429",
        stream=sse({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}, *EVENTS),
        text=HI,
    ),
    Oddity(
        name="a chunk without a delta at the end",
        source="https://github.com/microsoft/autogen/issues/6465",
        stream=sse(
            *EVENTS[:-1],
            {"id": "", "choices": [{"finish_reason": None, "index": 0, "content_filter_offsets": {}}]},
            "[DONE]",
        ),
        text=HI,
    ),
    *(
        Oddity(
            name=f"a chunk whose {what} is null",
            source="https://github.com/microsoft/autogen/issues/6465",
            stream=sse(chunk, *EVENTS),
            text=HI,
        )
        for what, chunk in {
            "list of choices": {"choices": None},
            "choice": {"choices": [None]},
            "delta": {"choices": [{"index": 0, "delta": None}]},
            "list of calls": chat.chunk({"tool_calls": None}),
            "call": chat.chunk({"tool_calls": [None]}),
            "whole": "null",
        }.items()
    ),
    Oddity(
        name="two choices",
        source=INJECTED,
        document=json_answer(
            WHOLE
            | {"choices": [*WHOLE["choices"], {"index": 1, "message": {"content": "no"}, "finish_reason": "stop"}]}
        ),
        stream=sse(
            *EVENTS[:-2], {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}, *EVENTS[-2:]
        ),
        text=HI,
    ),
    # ---- content
    *(
        Oddity(name=f"content is {what}", source=source, **both({"content": content}), text=text)
        for what, content, text, source in [
            ("null", None, "", "https://github.com/ggml-org/llama.cpp/issues/14268"),
            ("an empty list", [], "", "https://github.com/0xPlaygrounds/rig/issues/1136"),
            (
                "a list of parts",
                [{"type": "text", "text": "hi "}, {"type": "text", "text": "there"}],
                HI,
                "https://github.com/vercel/ai/issues/8012",
            ),
            ("a list of texts", ["hi ", "there"], HI, INJECTED),
            ("one part", {"type": "text", "text": HI}, HI, INJECTED),
            ("a part whose text is null", [{"type": "text", "text": None}], "", INJECTED),
            ("a number", 7, "", INJECTED),
        ]
    ),
    Oddity(
        name="a message that is null",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/266",
        document=json_answer(WHOLE | {"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]}),
    ),
    Oddity(
        name="thinking of Mistral in the content",
        source="https://github.com/n8n-io/n8n/issues/37352",
        document=json_answer(
            chat.completion(
                {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": LET}], "closed": True},
                        {"type": "text", "text": HI},
                    ]
                }
            )
        ),
        stream=streamed(
            {"index": 0, "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "let me "}]}]},
            {
                "index": 0,
                "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "look"}], "closed": True}],
            },
            {"content": HI},
        ),
        text=HI,
        thinking=LET,
        back=("thinking", LET),
    ),
    Oddity(
        name="a refusal",
        source="https://platform.openai.com/docs/guides/structured-outputs",
        **both({"content": None, "refusal": "I cannot"}),
        text="I cannot",
        stop="refused",
    ),
    Oddity(
        name="images that the model made",
        source="https://openrouter.ai/docs/features/multimodal/image-generation",
        **both({"content": HI, "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}),
        text=HI,
        back=("data:image/png;base64,aGk=",),
    ),
    Oddity(
        name="sources beside the text",
        source="https://openrouter.ai/docs/features/web-search",
        **both({"content": HI, "annotations": [CITED]}),
        text=HI,
        cited=("https://example.com/a",),
    ),
    Oddity(
        name="sources in a chunk of their own, at the end",
        source="https://github.com/vercel/ai/issues/17379",
        stream=streamed({"content": HI}, {"annotations": [CITED]}),
        text=HI,
        cited=("https://example.com/a",),
    ),
    *(
        Oddity(
            name=f"annotations that are {what}", source=INJECTED, **both({"content": HI, "annotations": said}), text=HI
        )
        for what, said in {"null": None, "an empty list": []}.items()
    ),
    # ---- reasoning
    *(
        Oddity(
            name=f"reasoning in {name}",
            source=source,
            **both({name: LET, "content": HI}),
            text=HI,
            thinking=LET,
            back=(f'"{name}": "{LET}"',),
        )
        for name, source in {
            "reasoning_content": "https://api-docs.deepseek.com/guides/thinking_mode",
            "reasoning": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        }.items()
    ),
    Oddity(
        name="reasoning twice, under two names",
        source="https://github.com/BerriAI/litellm/issues/20246",
        **both({"reasoning_content": LET, "reasoning": LET, "content": HI}),
        text=HI,
        thinking=LET,
    ),
    Oddity(
        name="reasoning that is null",
        source="https://github.com/sgl-project/sglang/issues/4550",
        **both({"reasoning_content": None, "reasoning": None, "reasoning_details": None, "content": HI}),
        text=HI,
    ),
    Oddity(
        name="reasoning that is an object",
        source=INJECTED,
        **both({"reasoning": {"text": LET}, "content": HI}),
        text=HI,
        thinking=LET,
    ),
    Oddity(
        name="details of reasoning without a text",
        source="https://openrouter.ai/docs/use-cases/reasoning-tokens",
        **both({"reasoning_details": [{"type": "reasoning.encrypted", "data": "c2VhbGVk"}], "content": HI}),
        text=HI,
        back=("c2VhbGVk",),
    ),
    Oddity(
        name="empty reasoning beside a call",
        source="https://github.com/BenedictKing/ccx/issues/170",
        document=json_answer(chat.completion({"reasoning_content": "", "tool_calls": [CALL]}, "tool_calls")),
        stream=streamed({"reasoning_content": ""}, {"tool_calls": [CALL | {"index": 0}]}, finish="tool_calls"),
        calls=(LS,),
        back=('"reasoning_content": ""',),
    ),
    Oddity(
        name="nothing but reasoning",
        source="https://github.com/openclaw/openclaw/issues/91604",
        **both({"reasoning_content": LET, "content": ""}),
        thinking=LET,
    ),
    # ---- Gemini's signatures
    Oddity(
        name="a signature beside a call, without an index",
        source="https://github.com/THU-MAIC/OpenMAIC/issues/1556",
        document=calling(CALL | {"extra_content": {"google": {"thought_signature": "c2ln"}}}),
        stream=parts(CALL | {"extra_content": {"google": {"thought_signature": "c2ln"}}}, finish="stop"),
        calls=(LS,),
        back=("c2ln",),
    ),
    Oddity(
        name="a signature beside the text",
        source="https://github.com/open-webui/computer/issues/224",
        document=json_answer(
            chat.completion({"content": HI, "extra_content": {"google": {"thought_signature": "c2ln"}}})
        ),
        stream=streamed({"content": HI}, {"extra_content": {"google": {"thought_signature": "c2ln"}}}),
        text=HI,
        back=("c2ln",),
    ),
    # ---- calls
    Oddity(
        name="one call without an index, in parts",
        source="https://github.com/AstrBotDevs/AstrBot/issues/6661",
        stream=parts(part("", "ls", id="call_1"), part('{"path"'), part(': "a"}')),
        calls=(LS,),
    ),
    Oddity(
        name="parts without an index that repeat id and name",
        source="https://github.com/openai/openai-agents-python/pull/4824",
        stream=parts(*(part(text, "ls", id="call_1") for text in ("", '{"path"', ': "a"}'))),
        calls=(LS,),
    ),
    Oddity(
        name="two calls without an index, in one chunk",
        source="https://github.com/SamSaffron/term-llm/pull/314",
        stream=streamed({"tool_calls": [CALL, CALL | {"id": "call_2"}]}, finish="tool_calls"),
        calls=(LS, LS),
    ),
    Oddity(
        name="two calls without an index, in two chunks",
        source="https://github.com/noho/dayu-agent/pull/57",
        stream=parts(CALL, CALL | {"id": "call_2"}),
        calls=(LS, LS),
    ),
    Oddity(
        name="an index in the first part only",
        source="https://github.com/openai/openai-agents-python/pull/4824",
        stream=parts(part("", "ls", id="call_1", index=0), part('{"path": "a"}', id="call_1")),
        calls=(LS,),
    ),
    Oddity(
        name="index 0 for each call",
        source="https://github.com/ollama/ollama/issues/15457",
        stream=parts(CALL | {"index": 0}, CALL | {"id": "call_2", "index": 0}),
        calls=(LS, LS),
    ),
    Oddity(
        name="index 0 for each of three calls with one name, in parts",
        source="https://github.com/apache/maka/pull/1995",
        stream=parts(
            *(
                part(text, name, id=f"call_{at}", index=0)
                for at in range(3)
                for name, text in (("ls", ""), (None, '{"path": "a"}'))
            )
        ),
        calls=(LS, LS, LS),
    ),
    Oddity(
        name="index 0 and no id for calls of two tools",
        source="https://github.com/apache/maka/pull/1995",
        stream=parts(part('{"path": "a"}', "ls", id="", index=0), part('{"path": "b"}', "cat", id="", index=0)),
        calls=(LS, ("cat", {"path": "b"})),
    ),
    Oddity(
        name="the second call's arguments at the index of the first",
        source="https://github.com/dyedd/lens/issues/49",
        stream=parts(
            part("", "ls", id="call_1", index=0), part('{"path": "a"}', "", index=0), part('{"path": "b"}', "", index=0)
        ),
        calls=(("ls", {}),),
        malformed='{"path": "a"}{"path": "b"}',
    ),
    Oddity(
        name="indices with a gap, in no order",
        source="https://github.com/jundot/omlx/pull/1356",
        stream=parts(
            part("", "ls", id="call_3", index=3),
            part("", "cat", id="call_1", index=1),
            part('{"path": "b"}', index=1),
            part('{"path": "a"}', index=3),
        ),
        calls=(LS, ("cat", {"path": "b"})),
    ),
    Oddity(
        name="a new id in each part",
        source=INJECTED,
        stream=parts(
            part("", "ls", id="call_1", index=0),
            part('{"path"', id="call_2", index=0),
            part(': "a"}', id="call_3", index=0),
        ),
        calls=(LS,),
    ),
    Oddity(
        name="id and name in each part",
        source="https://github.com/langchain-ai/langchain/issues/40041",
        stream=parts(*(part(text, "ls", id="call_1", index=0) for text in ("", '{"path"', ': "a"}'))),
        calls=(LS,),
    ),
    Oddity(
        name="id and name are null in later parts",
        source="https://github.com/sgl-project/sglang/pull/35542",
        stream=parts(part("", "ls", id="call_1", index=0), part('{"path": "a"}', None, id=None, index=0)),
        calls=(LS,),
    ),
    Oddity(
        name="id and name are empty in later parts",
        source="https://github.com/anomalyco/opencode/issues/37841",
        stream=parts(part("", "ls", id="call_1", index=0), part('{"path": "a"}', "", id="", index=0)),
        calls=(LS,),
    ),
    Oddity(
        name="a name in pieces",
        source="https://github.com/continuedev/continue/pull/5849",
        stream=parts(part("", "l", id="call_1", index=0), part("", "s", index=0), part('{"path": "a"}', index=0)),
        calls=(LS,),
    ),
    Oddity(
        name="an id that comes late",
        source="https://github.com/apache/maka/pull/1995",
        stream=parts(part("", "ls", index=0), part('{"path": "a"}', id="call_1", index=0)),
        calls=(LS,),
    ),
    Oddity(
        name="arguments as an object",
        source="https://github.com/huggingface/text-generation-inference/issues/2136",
        document=calling(chat.call("0", {"path": "a"})),
        stream=parts(chat.call("0", {"path": "a"}) | {"index": 0}),
        calls=(LS,),
    ),
    *(
        Oddity(
            name=f"arguments are {what}",
            source="https://github.com/vllm-project/vllm/issues/9693",
            document=calling(CALL | {"function": function}),
            stream=parts(CALL | {"index": 0, "function": function}),
            calls=(("ls", {}),),
        )
        for what, function in {
            "null": FUNCTION | {"arguments": None},
            "empty": FUNCTION | {"arguments": ""},
            "missing": {"name": "ls"},
            "an empty object": FUNCTION | {"arguments": {}},
            "the text null": FUNCTION | {"arguments": "null"},
        }.items()
    ),
    *(
        Oddity(
            name=f"arguments are the text {text!r}",
            source="https://github.com/ggml-org/llama.cpp/issues/22072",
            document=calling(chat.call("call_1", text)),
            stream=parts(chat.call("call_1", text) | {"index": 0}),
            calls=(("ls", {}),),
            malformed=text,
        )
        for text in ("[1]", '{"path": ', "a")
    ),
    Oddity(
        name="arguments with a number that JSON has not",
        source=INJECTED,
        document=calling(chat.call("call_1", '{"path": "a", "n": Infinity}')),
        calls=(("ls", {"path": "a", "n": math.inf}),),
    ),
    Oddity(
        name="arguments with blanks",
        source=INJECTED,
        document=calling(chat.call("call_1", '{ "path":  "a" }')),
        stream=parts(chat.call("call_1", '{ "path":  "a" }') | {"index": 0}),
        calls=(LS,),
        back=(json.dumps('{"path":"a"}'),),
    ),
    *(
        Oddity(
            name=f"the id of a call is {what}",
            source="https://github.com/anomalyco/opencode/issues/37841",
            document=calling(call),
            stream=parts(call | {"index": 0}),
            calls=(LS,),
        )
        for what, call in {
            "null": CALL | {"id": None},
            "empty": CALL | {"id": ""},
            "missing": without(CALL, "id"),
            "a number": CALL | {"id": 0},
        }.items()
    ),
    Oddity(
        name="two calls with one id",
        source="https://github.com/huggingface/text-generation-inference/pull/2954",
        document=calling(CALL, CALL),
        stream=parts(CALL | {"index": 0}, CALL | {"index": 1}),
        calls=(LS, LS),
    ),
    Oddity(
        name="the name of a call is null",
        source="https://github.com/open-webui/open-webui/pull/29690",
        document=calling(CALL | {"function": FUNCTION | {"name": None}}),
        stream=parts(CALL | {"index": 0, "function": FUNCTION | {"name": None}}),
        calls=(("", {"path": "a"}),),
    ),
    Oddity(
        name="a name that the model made up",
        source="https://github.com/anomalyco/opencode/issues/48750",
        document=calling(CALL | {"function": FUNCTION | {"name": "ls<|channel|>json"}}),
        stream=parts(CALL | {"index": 0, "function": FUNCTION | {"name": "ls<|channel|>json"}}),
        calls=(("ls<|channel|>json", {"path": "a"}),),
    ),
    Oddity(
        name="one call that is no list",
        source=INJECTED,
        document=json_answer(chat.completion({"tool_calls": CALL}, "tool_calls")),
        stream=streamed({"tool_calls": CALL}, finish="tool_calls"),
        calls=(LS,),
    ),
    Oddity(
        name="a call without a function",
        source=INJECTED,
        document=calling(without(CALL, "function")),
        stream=parts(without(CALL, "function") | {"index": 0}),
        calls=(("", {}),),
    ),
    Oddity(
        name="a call of the old form",
        source="https://github.com/QwenLM/qwen-code/pull/6240",
        document=json_answer(chat.completion({"function_call": FUNCTION}, "function_call")),
        stream=streamed(
            {"function_call": FUNCTION | {"arguments": ""}},
            *({"function_call": {"arguments": text}} for text in ('{"path"', ': "a"}')),
            finish="function_call",
        ),
        calls=(LS,),
    ),
    Oddity(
        name="a call beside blank text",
        source="https://github.com/BerriAI/litellm/issues/34692",
        document=json_answer(chat.completion({"content": "\n", "tool_calls": [CALL]}, "tool_calls")),
        stream=streamed({"content": "\n"}, {"tool_calls": [CALL | {"index": 0}]}, finish="tool_calls"),
        text="\n",
        calls=(LS,),
    ),
    Oddity(
        name="a call that Groq could not parse",
        source="https://github.com/groq/groq-typescript/issues/28",
        document=sent_as({"error": FAILED_CALL}, status=400),
        stream=sent_as({"error": FAILED_CALL}, status=400),
        calls=(LS,),
        usage=UNKNOWN,
    ),
    Oddity(
        name="a call that Groq could not parse, in the middle of a stream",
        source="https://github.com/anomalyco/opencode/issues/1018",
        stream=lines(
            sse(chat.chunk({"reasoning": LET})).body.decode()
            + f"event: error\ndata: {json.dumps({'error': FAILED_CALL})}\n\n"
        ),
        calls=(LS,),
        usage=UNKNOWN,
    ),
    Oddity(
        name="a call that nobody can parse",
        source="https://github.com/huggingface/smolagents/issues/1119",
        document=sent_as({"error": FAILED_CALL | {"failed_generation": "<tool-use>ls a</tool-use>"}}, status=400),
        calls=(("", {}),),
        malformed="<tool-use>ls a</tool-use>",
        usage=UNKNOWN,
    ),
    # ---- errors of status 200
    *(
        Oddity(
            name=f"an error that is {what}",
            source=source,
            document=json_answer({"error": error}),
            stream=sse({"error": error}, "[DONE]"),
            error=kind,
            words=(words,),
        )
        for what, error, kind, words, source in [
            (
                "an object",
                {"object": "error", "message": "The model is not multimodal", "code": 400},
                ModelError,
                "not multimodal",
                "https://github.com/BerriAI/litellm/pull/32237",
            ),
            (
                "a text",
                "thinking_budget is not supported",
                ModelError,
                "thinking_budget is not",
                "https://github.com/Blaizzy/nativ/pull/195",
            ),
            (
                "numbered",
                {"code": 429, "message": "slow down"},
                RateLimited,
                "slow down",
                "https://openrouter.ai/docs/api/reference/errors-and-debugging",
            ),
            (
                "numbered as a text",
                {"code": "401", "message": "no such key"},
                AuthenticationFailed,
                "no such key",
                "https://openrouter.ai/docs/api/reference/errors-and-debugging",
            ),
            (
                "of the provider behind OpenRouter",
                {
                    "message": "Provider returned error",
                    "code": 503,
                    "metadata": {"raw": "no capacity left", "provider_name": "BaseTen"},
                },
                Overloaded,
                "no capacity left",
                "https://github.com/open-webui/computer/issues/293",
            ),
            (
                "of the provider behind OpenRouter, as JSON",
                {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": '{"error":{"message":"at most 1 image"}}'},
                },
                ModelError,
                "at most 1 image",
                "https://github.com/diegosouzapw/OmniRoute/issues/3044",
            ),
            ("an object without a message", {"code": "boom"}, ModelError, "boom", INJECTED),
        ]
    ),
    Oddity(
        name="an overflow of TGI in a stream",
        source="https://github.com/huggingface/huggingface_hub/pull/2558",
        stream=sse(
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4091",
                "error_type": "validation",
            }
        ),
        error=ContextOverflow,
        words=("Input validation error",),
    ),
    Oddity(
        name="an unknown path, with status 200",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1879",
        document=json_answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
        stream=json_answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
        error=ModelError,
        words=("Unexpected endpoint",),
    ),
    Oddity(
        name="a document that was cut",
        source="https://github.com/preloop/preloop/issues/109",
        document=sent_as(json.dumps(WHOLE)[:-20]),
        stream=sent_as(json.dumps(WHOLE)[:-20]),
        error=ModelError,
        words=("a JSON object",),
    ),
    Oddity(
        name="an error beside a message",
        source="https://github.com/zendev-sh/goai/pull/110",
        stream=sse({"error": {"message": "Compute error."}, "message": "Compute error."}),
        error=ModelError,
        words=("Compute error",),
    ),
    Oddity(
        name="an error in the choice, and null beside it",
        source="https://openrouter.ai/docs/api/reference/errors-and-debugging",
        document=json_answer(
            {"error": None, "choices": [{"error": {"code": 502, "message": "upstream gone"}, "finish_reason": "error"}]}
        ),
        stream=sse(
            {
                "error": None,
                "choices": [
                    {"delta": {}, "error": {"code": 502, "message": "upstream gone"}, "finish_reason": "error"}
                ],
            }
        ),
        error=ModelError,
        words=("upstream gone",),
    ),
    Oddity(
        name="error is null beside an answer",
        source="https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/266",
        document=json_answer(WHOLE | {"error": None}),
        stream=sse(*(event | {"error": None} if isinstance(event, dict) else event for event in EVENTS)),
        text=HI,
    ),
    Oddity(
        name="an error in a field of its own",
        source="https://github.com/ggml-org/llama.cpp/pull/16109",
        stream=lines('error: {"code":500,"message":"context shift is disabled","type":"server_error"}\n\n'),
        error=ModelError,
        words=("context shift is disabled",),
    ),
    Oddity(
        name="an error as an event of that name",
        source="https://github.com/anomalyco/opencode/issues/1018",
        stream=lines(
            'event: error\ndata: {"error":{"message":"out of memory","type":"server_error","status_code":500}}\n\n'
        ),
        error=ModelError,
        words=("out of memory",),
    ),
    *(
        Oddity(
            name=f"{what} instead of an answer",
            source=source,
            document=json_answer(body),
            stream=json_answer(body),
            error=ModelError,
            words=(words,),
        )
        for what, body, words, source in [
            (
                "a flat error of vLLM",
                {"object": "error", "message": "The model does not exist", "type": "NotFoundError", "code": 404},
                "does not exist",
                "https://github.com/vllm-project/vllm/issues/9693",
            ),
            ("a detail", {"detail": "Not Found"}, "Not Found", "https://github.com/stanfordnlp/dspy/issues/1041"),
            (
                "a message and a code",
                {"code": 1234, "msg": "no such service", "success": False},
                "no such service",
                "https://docs.z.ai/api-reference/api-code",
            ),
            (
                "a status of MiniMax",
                {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
                "insufficient balance",
                "https://platform.minimax.io/docs/api-reference/text-openai-api",
            ),
            (
                "no choice",
                {"id": "chatcmpl-1", "choices": []},
                "choice",
                "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/266",
            ),
            ("a list", [1], "JSON object", INJECTED),
        ]
    ),
    *(
        Oddity(
            name=f"finish_reason is {reason!r}",
            source=source,
            **both({"content": "hi t"}, reason),
            error=ModelError,
            words=(reason,),
        )
        for reason, source in [
            ("error", "https://openrouter.ai/docs/api/reference/errors-and-debugging"),
            ("network_error", "https://docs.z.ai/api-reference/llm/chat-completion"),
            ("insufficient_system_resource", "https://api-docs.deepseek.com/api/create-chat-completion"),
        ]
    ),
    Oddity(
        name="a page instead of an answer",
        source="https://github.com/QwenLM/qwen-code/issues/6465",
        document=sent_as(PAGE, "text/html;charset=UTF-8"),
        stream=sent_as(PAGE, "text/html;charset=UTF-8"),
        error=ModelError,
        words=("Request blocked",),
    ),
    Oddity(
        name="an empty body",
        source="https://github.com/preloop/preloop/issues/109",
        document=sent_as(""),
        stream=lines(""),
        error=ModelError,
        words=("local-x: ",),
    ),
    Oddity(
        name="bytes that are no UTF-8",
        source=INJECTED,
        document=sent_as(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
        stream=sent_as(b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n', "text/event-stream"),
        error=ModelError,
        words=("local-x: ",),
    ),
]
