"""What the Responses API refuses."""

import json
from collections.abc import Iterator
from typing import Any

from harness.oracle.media import file_faults, link_faults, url_faults
from harness.oracle.tools import duplicates, name_faults, schema_faults, strict_faults

Wire = dict[str, Any]

ANSWERED = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
"""The calls that the client must answer, each with the type of its answer: the SDK's type ResponseInputItemParam."""

PARTS = {"assistant": {"output_text", "refusal"}}
ASKED = {"input_text", "input_image", "input_file", "input_audio"}


# ---- what a body holds


def items(body: Wire) -> list[Wire]:
    return body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]


def is_message(item: Wire) -> bool:
    return item.get("type", "message") == "message" and "role" in item


def parts(item: Wire) -> list[Wire]:
    """The parts of a message, or of the output of a call."""
    content = item.get("content") if is_message(item) else item.get("output")
    return content if isinstance(content, list) else []


def calls(body: Wire) -> list[tuple[int, Wire]]:
    return [(at, item) for at, item in enumerate(items(body)) if is_call(item)]


def is_call(item: Wire) -> bool:
    # Tools are searched by the provider, unless the call says that the client is to do it.
    return item.get("type") in ANSWERED or (
        item.get("type") == "tool_search_call" and item.get("execution") == "client"
    )


def call_of(item: Wire) -> Any:
    """The id of the call that an output answers; that of a local shell has another name."""
    return item.get("call_id", item.get("id") if item.get("type") == "local_shell_call_output" else None)


def outputs(body: Wire) -> list[tuple[int, Wire]]:
    kinds = {*ANSWERED.values(), "tool_search_output"}
    return [(at, item) for at, item in enumerate(items(body)) if item.get("type") in kinds]


def is_stored(body: Wire) -> bool:
    """Return True if the conversation before these items is kept by the provider."""
    return bool(body.get("previous_response_id") or body.get("conversation"))


# ---- the rules


def shape(body: Wire) -> Iterator[str]:
    # The SDK's type ResponseCreateParams.
    if not isinstance(body.get("model"), str):
        yield "a body needs a model"
    said = body.get("input")
    if not isinstance(said, str | list) or not said:
        yield "a body needs input"
        return
    for at, item in enumerate(said if isinstance(said, list) else []):
        if not isinstance(item, dict) or not (item.get("type") or item.get("role")):
            yield f"input[{at}]: an item needs a type or a role, found {str(item)[:200]}"
        elif is_message(item) and not isinstance(item.get("content"), str | list):
            yield f"input[{at}].content: text or parts, found {item.get('content')!r}"


def calls_are_answered(body: Wire) -> Iterator[str]:
    # https://github.com/router-for-me/CLIProxyAPI/issues/2368 and, for patches, https://github.com/vercel/ai/issues/11267
    said = outputs(body)
    for at, call in calls(body):
        kind = ANSWERED.get(call["type"], "tool_search_output")
        if not any(
            place > at and item["type"] == kind and call_of(item) == call.get("call_id") for place, item in said
        ):
            yield f"input[{at}]: no {kind} found for {call['type']} {call.get('call_id')!r}"


def outputs_have_a_call(body: Wire) -> Iterator[str]:
    # https://github.com/continuedev/continue/issues/10092
    for at, output in () if is_stored(body) else outputs(body):
        asked = [call for place, call in calls(body) if place < at and call.get("call_id") == call_of(output)]
        hosted = output["type"] == "shell_call_output" or output["type"] == "tool_search_output"
        if not asked and not (hosted and call_of(output) is None):
            yield f"input[{at}]: no call found for {output['type']} {call_of(output)!r}"


def outputs_are_of_their_form(body: Wire) -> Iterator[str]:
    # The SDK's types ShellCallOutput, ApplyPatchCallOutput, ComputerCallOutput and LocalShellCallOutput.
    for at, item in outputs(body):
        said = item.get("output")
        match item["type"]:
            case "shell_call_output":
                fits = isinstance(said, list) and bool(said) and all(map(is_outcome, said))
            case "apply_patch_call_output":
                fits = item.get("status") in ("completed", "failed") and isinstance(said, str | None)
            case "computer_call_output":
                fits = isinstance(said, dict) and said.get("type") == "computer_screenshot"
                fits = fits and (bool(said.get("file_id")) or not list(url_faults(said.get("image_url"))))
            case "local_shell_call_output" | "custom_tool_call_output" | "function_call_output":
                fits = isinstance(said, str) or (item["type"] != "local_shell_call_output" and bool(parts(item)))
            case _:
                fits = True
        if not fits:
            yield f"input[{at}]: no output for {item['type']}: {item}"


def is_outcome(said: Wire) -> bool:
    exit_code = (said.get("outcome") or {}).get("exit_code")
    ended = isinstance(exit_code, int) or (said.get("outcome") or {}).get("type") == "timeout"
    return ended and isinstance(said.get("stdout"), str) and isinstance(said.get("stderr"), str)


def checks_are_acknowledged(body: Wire) -> Iterator[str]:
    # https://developers.openai.com/api/docs/guides/tools-computer-use#pending-safety-checks
    asked = {call.get("call_id"): call.get("pending_safety_checks") or () for _, call in calls(body)}
    for at, item in outputs(body):
        known = [check.get("id") for check in item.get("acknowledged_safety_checks") or ()]
        if missing := [check for check in asked.get(call_of(item), ()) if check.get("id") not in known]:
            yield f"input[{at}]: safety checks are not acknowledged: {missing}"


def no_call_stands_twice(body: Wire) -> Iterator[str]:
    # By its call id, https://github.com/pydantic/pydantic-ai/issues/2463; and no output twice.
    yield from duplicates((call.get("call_id") for _, call in calls(body)), "a call")
    yield from duplicates((call_of(output) for _, output in outputs(body)), "an output for")


def call_ids_fit(body: Wire) -> Iterator[str]:
    # https://github.com/jin-bo/agentao/pull/321: from 1 to 64 characters.
    for at, item in [*calls(body), *outputs(body)]:
        call_id = call_of(item)
        if item["type"].startswith("tool_search") and call_id is None:
            continue
        if not isinstance(call_id, str) or not 1 <= len(call_id) <= 64:
            yield f"input[{at}].call_id: expected 1 to 64 characters, found {call_id!r}"


def items_stand_once(body: Wire) -> Iterator[str]:
    # https://github.com/continuedev/continue/issues/10723 and https://github.com/github/app/issues/540
    own = [item for item in items(body) if not str(item.get("type")).endswith("_output")]
    yield from duplicates((item.get("id") for item in own), "an item with the id")


def reasoning_is_followed(body: Wire) -> Iterator[str]:
    # https://github.com/openai/openai-node/issues/1567 and https://github.com/vercel/ai/issues/7099. What follows needs
    # its id as well (https://github.com/OpenHands/software-agent-sdk/pull/1754), but where nothing is stored
    # (https://github.com/jin-bo/agentao/pull/321).
    said = items(body)
    for at, item in enumerate(said):
        if item.get("type") != "reasoning":
            continue
        following = next((other for other in said[at + 1 :] if other.get("type") != "reasoning"), {})
        asked = is_message(following) and following["role"] != "assistant"
        if not following or asked or str(following.get("type")).endswith("_output"):
            yield f"input[{at}]: reasoning {item.get('id')!r} was provided without its required following item"
        elif item.get("id") and body.get("store") is not False and not following.get("id"):
            yield f"input[{at}]: reasoning {item['id']!r} is stored, but the item after it has no id: {following}"


def reasoning_is_whole(body: Wire) -> Iterator[str]:
    # https://github.com/newo-ether/Agora/issues/141
    for at, item in enumerate(items(body)):
        if item.get("type") == "reasoning" and not isinstance(item.get("summary"), list):
            yield f"input[{at}]: missing required field summary"


def names_fit(body: Wire) -> Iterator[str]:
    # https://github.com/anomalyco/opencode/issues/48750 and https://github.com/mastra-ai/mastra/issues/13632
    named = [tool for tool in body.get("tools", ()) if tool.get("type") in ("function", "custom")]
    used = [call for _, call in calls(body) if call["type"] in ("function_call", "custom_tool_call")]
    yield from name_faults((tool.get("name") for tool in named), 64, "a tool's name")
    yield from name_faults((call.get("name") for call in used), 64, "the name of a call")


def parts_are_of_the_role(body: Wire) -> Iterator[str]:
    # https://github.com/jeremychone/rust-genai/pull/119
    for at, item in enumerate(items(body)):
        allowed = PARTS.get(item.get("role", ""), ASKED)
        for part in parts(item) if is_message(item) else ():
            if part.get("type") not in allowed:
                yield f"input[{at}]: {part.get('type')!r} is no part for {item['role']}; supported are {sorted(allowed)}"


def messages_have_parts(body: Wire) -> Iterator[str]:
    # https://developers.openai.com/api/docs/guides/error-codes: an empty array of parts is refused as too short.
    for at, item in enumerate(items(body)):
        if is_message(item) and item["content"] == []:
            yield f"input[{at}].content: empty array, expected at least one part"


def texts_are_whole(body: Wire) -> Iterator[str]:
    # The SDK's types ResponseOutputTextParam and ResponseInputTextParam.
    for at, item in enumerate(items(body)):
        for part in parts(item):
            field = "refusal" if part.get("type") == "refusal" else "text"
            if part.get("type") in ("output_text", "input_text", "refusal") and not isinstance(part.get(field), str):
                yield f"input[{at}]: {part.get('type')} needs {field}, found {part}"
            if not isinstance(part.get("annotations", []), list):
                yield f"input[{at}]: annotations must be a list, found {part['annotations']!r}"


def media_are_what_they_say(body: Wire) -> Iterator[str]:
    for at, item in enumerate(items(body)):
        for part in parts(item):
            found: Iterator[str] = iter(())
            if part.get("type") == "input_image" and not part.get("file_id"):
                found = url_faults(part.get("image_url"))
            elif part.get("type") == "input_file" and "file_url" in part:
                found = link_faults(part["file_url"])
            elif part.get("type") == "input_file" and not part.get("file_id"):
                found = file_faults(part.get("file_data"))
            yield from (f"input[{at}]: {fault}" for fault in found)


def arguments_are_json(body: Wire) -> Iterator[str]:
    # The SDK's type ResponseFunctionToolCallParam: a JSON text; some servers read it and answer 500 if it is none.
    for at, call in calls(body):
        if call["type"] == "function_call" and not is_json(call.get("arguments")):
            yield f"input[{at}].arguments: expected a JSON text, found {str(call.get('arguments'))[:60]!r}"


def is_json(text: Any) -> bool:
    try:
        return isinstance(text, str) and json.loads(text) is not ...
    except ValueError:
        return False


def tools_fit(body: Wire) -> Iterator[str]:
    tools = body.get("tools", ())
    yield from duplicates((tool.get("name") or tool.get("server_label") for tool in tools), "a tool named")
    for tool in tools:
        if tool.get("type") == "function":
            yield from schema_faults(tool.get("parameters"), f"parameters of {tool.get('name')!r}")
            if tool.get("strict"):
                yield from strict_faults(tool.get("parameters"), f"parameters of {tool.get('name')!r}")
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema" and form.get("strict"):
        yield from strict_faults(form.get("schema"), "text.format.schema")


def the_choice_exists(body: Wire) -> Iterator[str]:
    # https://developers.openai.com/api/docs/guides/function-calling#tool-choice
    choice = body.get("tool_choice")
    tools = body.get("tools", ())
    if choice and choice != "none" and not tools:
        yield "tool_choice is only allowed when tools are specified"
    named = choice.get("name") if isinstance(choice, dict) else None
    if named and named not in [tool.get("name") for tool in tools]:
        yield f"tool_choice names {named!r}, which is not among the tools"


OF_THE_WHOLE = (
    calls_are_answered,
    outputs_have_a_call,
    no_call_stands_twice,
    items_stand_once,
    reasoning_is_followed,
    checks_are_acknowledged,
)
"""What a whole conversation must be, and a part of one need not."""

OF_EACH_PART = (
    outputs_are_of_their_form,
    call_ids_fit,
    reasoning_is_whole,
    names_fit,
    parts_are_of_the_role,
    messages_have_parts,
    texts_are_whole,
    media_are_what_they_say,
    arguments_are_json,
    tools_fit,
    the_choice_exists,
)
