"""What Chat Completions refuses, at OpenAI and at the servers that speak it."""

from collections.abc import Collection, Iterator
from typing import Any

from harness.oracle.media import file_faults, url_faults
from harness.oracle.tools import duplicates, json_object, name_faults, schema_faults, strict_faults

Wire = dict[str, Any]

ROLES = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file", "video_url"},
    "assistant": {"text", "refusal", "thinking", "reference"},
    "tool": {"text"},
}
"""The parts that a message of each role may have; `video_url` is not OpenAI's, but many servers take it; `thinking` and
`reference` are Mistral's: https://docs.mistral.ai/capabilities/reasoning/ and https://docs.mistral.ai/capabilities/citations/
"""

FIELDS = {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call", "tool_call_id"}
CALL = {"id", "type", "function", "custom"}


# ---- what a body holds


def calls(message: Wire) -> list[Wire]:
    return message.get("tool_calls") or []


def called(call: Wire) -> Any:
    """What is called: the SDK's types ChatCompletionMessageFunctionToolCall and ChatCompletionMessageCustomToolCall."""
    return call.get(str(call.get("type", "function")))


def all_calls(body: Wire) -> Iterator[tuple[str, Wire]]:
    for at, message in enumerate(body["messages"]):
        yield from ((f"messages[{at}].tool_calls[{index}]", call) for index, call in enumerate(calls(message)))


def parts(body: Wire) -> Iterator[tuple[str, str, Wire]]:
    """Yield the role of each message that has parts, and the place and the part."""
    for at, message in enumerate(body["messages"]):
        content = message.get("content")
        for index, part in enumerate(content if isinstance(content, list) else []):
            yield message["role"], f"messages[{at}].content[{index}]", part


def answers(messages: list[Wire], at: int) -> list[Any]:
    """The ids of the tool messages directly behind the message at *at*."""
    found: list[Any] = []
    for message in messages[at + 1 :]:
        if message["role"] != "tool":
            break
        found.append(message.get("tool_call_id"))
    return found


# ---- the rules


def shape(body: Wire) -> Iterator[str]:
    # The SDK's type CompletionCreateParams.
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not isinstance(messages, list) or not messages:
        yield "a body needs a model and a list of messages"
        return
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            yield f"messages[{at}]: a message needs a role, found {str(message)[:200]}"
        elif not all(isinstance(call, dict) and isinstance(called(call), dict) for call in calls(message)):
            yield f"messages[{at}].tool_calls: a call needs a function or a custom tool, found {calls(message)}"


def calls_are_answered_at_once(body: Wire) -> Iterator[str]:
    # https://github.com/agno-agi/agno/issues/3105 and https://github.com/langgenius/dify/issues/32222
    for at, message in enumerate(body["messages"]):
        answered = answers(body["messages"], at)
        for call in calls(message):
            if call.get("id") not in answered:
                yield f"messages[{at}]: tool_call_id {call.get('id')!r} did not have a response message"


def results_have_a_call(body: Wire) -> Iterator[str]:
    # https://github.com/FoundationAgents/OpenManus/issues/744 and https://github.com/simonw/llm/issues/937
    asked: list[Any] = []
    for at, message in enumerate(body["messages"]):
        if message["role"] != "tool":
            asked = [call.get("id") for call in calls(message)]
        elif message.get("tool_call_id") not in asked:
            yield f"messages[{at}]: role 'tool' must be a response to a preceding message with 'tool_calls'"


def no_call_stands_twice(body: Wire) -> Iterator[str]:
    # https://github.com/vectorize-io/hindsight/pull/4250
    yield from duplicates((call.get("id") for _, call in all_calls(body)), "a call")
    yield from duplicates((message.get("tool_call_id") for message in body["messages"]), "a result for")


def call_ids_fit(body: Wire) -> Iterator[str]:
    # https://github.com/jin-bo/agentao/pull/321: from 1 to 64 characters.
    for place, call in all_calls(body):
        if not isinstance(call.get("id"), str) or not 1 <= len(call["id"]) <= 64:
            yield f"{place}.id: expected 1 to 64 characters, found {call.get('id')!r}"


def names_fit(body: Wire) -> Iterator[str]:
    # https://github.com/anomalyco/opencode/issues/48750 and https://github.com/mastra-ai/mastra/issues/13632
    tools = [called(tool).get("name") for tool in body.get("tools", ()) if isinstance(called(tool), dict)]
    yield from name_faults(tools, 64, "a tool's name")
    yield from name_faults((called(call).get("name") for _, call in all_calls(body)), 64, "the name of a call")


def arguments_are_an_object(body: Wire) -> Iterator[str]:
    # Servers read them for their templates, and fail on what is no object: https://github.com/vllm-project/vllm/issues/18412
    for place, call in all_calls(body):
        if "function" in call and not json_object(call["function"].get("arguments")):
            yield f"{place}.arguments: expected the JSON text of an object, found {call['function'].get('arguments')!r}"
        elif "custom" in call and not isinstance(call["custom"].get("input"), str):
            yield f"{place}.input: expected text, found {call['custom'].get('input')!r}"


def content_is_there(body: Wire) -> Iterator[str]:
    # The SDK's type ChatCompletionAssistantMessageParam; https://github.com/carlrobertoh/ProxyAI/issues/834 and
    # https://developers.openai.com/api/docs/guides/error-codes for an empty list of parts.
    for at, message in enumerate(body["messages"]):
        content = message.get("content")
        others = message["role"] == "assistant" and any(map(message.get, ("tool_calls", "function_call", "audio")))
        if content == [] or (content is None and not others):
            yield f"messages[{at}].content: expected text or parts, found {content!r}"
        if "tool_calls" in message and not message["tool_calls"]:
            yield f"messages[{at}].tool_calls: expected at least one call"


def parts_are_of_the_role(body: Wire, said: Collection[str] = ()) -> Iterator[str]:
    # The SDK's types ChatCompletionUserMessageParam and so on. Mistral takes back the thinking that it has sent.
    for role, place, part in parts(body):
        allowed = ROLES[role] | ({"thinking"} & set(said) if role == "assistant" else set())
        if part.get("type") not in allowed:
            yield f"{place}: {part.get('type')!r} is no part for {role}; supported are {sorted(allowed)}"
        elif part["type"] == "text" and not isinstance(part.get("text"), str):
            yield f"{place}: a part needs text, found {part}"


def media_are_what_they_say(body: Wire) -> Iterator[str]:
    for _, place, part in parts(body):
        found: Iterator[str] = iter(())
        if part.get("type") == "image_url":
            found = url_faults((part.get("image_url") or {}).get("url"))
        elif part.get("type") == "file" and not (part.get("file") or {}).get("file_id"):
            found = file_faults((part.get("file") or {}).get("file_data"))
        yield from (f"{place}: {fault}" for fault in found)


def tools_fit(body: Wire) -> Iterator[str]:
    tools = body.get("tools")
    if tools == []:  # https://github.com/dphnAI/sonar/pull/1143
        yield "tools: expected at least one"
    functions = [tool["function"] for tool in tools or () if "function" in tool]
    yield from duplicates((called(tool).get("name") for tool in tools or () if called(tool)), "a tool named")
    for function in functions:
        if "parameters" in function:
            yield from schema_faults(function["parameters"], f"parameters of {function.get('name')!r}")
    form = (body.get("response_format") or {}).get("json_schema") or {}
    if form.get("strict"):
        yield from strict_faults(form.get("schema"), "response_format.schema")


def the_choice_exists(body: Wire) -> Iterator[str]:
    # https://github.com/dphnAI/sonar/pull/1143 and
    # https://developers.openai.com/api/docs/api-reference/chat/create for the others.
    choice = body.get("tool_choice")
    tools = body.get("tools") or ()
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not tools:
            yield f"{name} is only allowed when tools are specified"
    named = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    if named and tools and named not in [tool.get("function", {}).get("name") for tool in tools]:
        yield f"tool_choice names {named!r}, which is not among the tools"
    if body.get("stream_options") and not body.get("stream"):
        yield "stream_options is only allowed when stream is enabled"


def fields_are_known(body: Wire, said: Collection[str] = ()) -> Iterator[str]:
    """Fields that OpenAI does not name may go to the server that has *said* them, and to no other."""
    # https://github.com/janhq/jan/issues/8136, https://github.com/karthink/gptel/issues/774
    for at, message in enumerate(body["messages"]):
        if unknown := sorted(message.keys() - FIELDS - set(said)):
            yield f"messages[{at}]: {unknown} unsupported, this server has not sent them"
    for place, call in all_calls(body):
        if unknown := sorted(call.keys() - CALL - set(said)):
            yield f"{place}: {unknown} unsupported, this server has not sent them"
    for _, place, part in parts(body):
        # A part has a field that begins with its type: `thinking`, `reference_ids`.
        if (kind := part.get("type")) in ("thinking", "reference") and not any(name.startswith(kind) for name in said):
            yield f"{place}: a part {kind!r} unsupported, this server has not sent one"


OF_THE_WHOLE = (
    calls_are_answered_at_once,
    results_have_a_call,
    no_call_stands_twice,
    fields_are_known,
)
"""What a whole conversation must be, and a part of one need not."""

OF_EACH_PART = (
    call_ids_fit,
    names_fit,
    arguments_are_an_object,
    content_is_there,
    parts_are_of_the_role,
    media_are_what_they_say,
    tools_fit,
    the_choice_exists,
)

OF_THE_SERVER = (fields_are_known, parts_are_of_the_role)
"""The rules that are told the names of the fields that the server has sent."""
