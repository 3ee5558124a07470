"""What the Messages API refuses."""

import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from harness.oracle.media import decoded, image_faults, link_faults
from harness.oracle.tools import duplicates, held_faults, name_faults, schema_faults

Wire = dict[str, Any]
Place = tuple[str, Wire]

CITED = {
    "char_location": {"cited_text", "document_index", "document_title", "start_char_index", "end_char_index"},
    "page_location": {"cited_text", "document_index", "document_title", "start_page_number", "end_page_number"},
    "content_block_location": {"cited_text", "document_index", "document_title", "start_block_index", "end_block_index"},
    "web_search_result_location": {"cited_text", "encrypted_index", "title", "url"},
    "search_result_location": {"cited_text", "search_result_index", "source", "title", "start_block_index", "end_block_index"},
}  # fmt: skip
"""The fields that a citation needs: the SDK's types `CitationCharLocationParam` and so on. Later types may come."""

ANNOTATIONS = ("url_citation", "file_citation", "container_file_citation", "file_path")
"""The types of OpenAI's citations, which are refused."""


# ---- what a body holds


def blocks_of(message: Wire) -> list[Wire]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def blocks(body: Wire) -> Iterator[Place]:
    """Yield the blocks of all messages, each with its place."""
    for at, message in enumerate(body["messages"]):
        for index, block in enumerate(blocks_of(message)):
            yield f"messages.{at}.content.{index}", block


def nested(body: Wire) -> Iterator[Place]:
    """Yield the blocks of all messages, and those within results."""
    for place, block in blocks(body):
        yield place, block
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from ((f"{place}.content.{index}", part) for index, part in enumerate(block["content"]))


def system_of(body: Wire) -> Iterator[Place]:
    system = body.get("system", ())
    said = [{"type": "text", "text": system}] if isinstance(system, str) else system
    yield from ((f"system.{index}", block) for index, block in enumerate(said))


def marked(body: Wire) -> list[Place]:
    """The blocks with a cache breakpoint, in the order of the cache; the body itself comes last."""
    tools = [(f"tools.{index}", tool) for index, tool in enumerate(body.get("tools", ()))]
    places = [*tools, *system_of(body), *nested(body), ("the body", body)]
    return [(place, block) for place, block in places if block.get("cache_control")]


def ids(message: Wire, kind: str, name: str) -> list[Any]:
    return [block.get(name) for block in blocks_of(message) if block["type"] == kind]


def pairs(body: Wire) -> Iterator[tuple[int, Wire, Wire]]:
    """Yield each message with the one that follows it, which is empty behind the last."""
    messages = body["messages"]
    for at, message in enumerate(messages):
        yield at, message, messages[at + 1] if at + 1 < len(messages) else {"content": [], "role": ""}


def is_programmatic(block: Wire) -> bool:
    """Return True for a call that code of the code execution tool makes."""
    return str((block.get("caller") or {}).get("type", "")).startswith("code_execution")


# ---- the rules


def shape(body: Wire) -> Iterator[str]:
    # The SDK's type MessageCreateParams.
    if not isinstance(body.get("model"), str) or not isinstance(body.get("max_tokens"), int):
        yield "a body needs a model and max_tokens"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "a body needs a list of messages"
        return
    for at, message in enumerate(messages):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if message.get("role") not in ("user", "assistant", "system"):
            yield f"messages.{at}.role: {message.get('role')!r}"
        if not isinstance(content, str | list) or not all(
            isinstance(part, dict) and part.get("type") for part in parts
        ):
            yield f"messages.{at}.content: text or blocks with a type, found {str(content)[:200]}"


def a_user_speaks_first_and_roles_alternate(body: Wire) -> Iterator[str]:
    # The API joins neighbours of one role, but servers in front of it do not, and the first must be the user's:
    # https://platform.claude.com/docs/en/api/messages and https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
    roles = [message["role"] for message in body["messages"]]
    if roles[0] != "user":
        yield f"messages.0: the first message must be the user's, found {roles[0]!r}"
    for at, (one, other) in enumerate(pairwise(roles)):
        if one == other:
            yield f"messages.{at + 1}: two messages in succession are the {one}'s"


def nothing_is_empty(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/claude-code/issues/6774 and https://github.com/anthropics/claude-code/issues/23369
    for at, message in enumerate(body["messages"]):
        if not message["content"]:
            yield f"messages.{at}: all messages must have non-empty content"
    for place, block in [*system_of(body), *nested(body)]:
        if block["type"] == "text" and not str(block.get("text", "")).strip():
            yield f"{place}: text must contain non-whitespace text, found {block.get('text')!r}"


def thinking_is_not_last(body: Wire) -> Iterator[str]:
    # https://github.com/tailcallhq/forgecode/issues/2107 and https://github.com/anthropics/claude-code/issues/11514
    for at, message in enumerate(body["messages"]):
        said = blocks_of(message)
        if message["role"] == "assistant" and said and said[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"messages.{at}: the final block of an assistant's message is {said[-1]['type']}"


def thinking_is_signed(body: Wire, said: Collection[str] = ()) -> Iterator[str]:
    """A server that has *said* thinking and no signature does not sign, and wants its thinking back as it is."""
    # The SDK's types ThinkingBlockParam and RedactedThinkingBlockParam; DeepSeek's server is one that does not sign:
    # https://github.com/NousResearch/hermes-agent/issues/22313
    unsigned = "thinking" in said and "signature" not in said
    for place, block in blocks(body):
        signed = unsigned or isinstance(block.get("signature"), str)
        if block["type"] == "thinking" and not (signed and "thinking" in block):
            yield f"{place}: thinking needs its text and its signature"
        if block["type"] == "redacted_thinking" and not isinstance(block.get("data"), str):
            yield f"{place}: redacted thinking needs its data"


def thinking_begins_a_pending_turn(body: Wire) -> Iterator[str]:
    # With a budget, the assistant's message before results begins with thinking; not with adaptive thinking:
    # https://github.com/anthropics/claude-code/issues/11978 and
    # https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
    if (body.get("thinking") or {}).get("type") != "enabled" or len(body["messages"]) < 2:
        return
    said, last = body["messages"][-2:]
    pending = [block["type"] for block in blocks_of(last)]
    if "tool_result" in pending and blocks_of(said)[0]["type"] not in ("thinking", "redacted_thinking"):
        yield f"messages.{len(body['messages']) - 2}: expected thinking first, as thinking is enabled"


def the_last_text_has_no_blanks_at_its_end(body: Wire) -> Iterator[str]:
    # https://github.com/tailcallhq/forgecode/issues/1872
    last = body["messages"][-1]
    said = blocks_of(last)
    if (
        last["role"] == "assistant"
        and said
        and said[-1]["type"] == "text"
        and said[-1]["text"] != said[-1]["text"].rstrip()
    ):
        yield f"final assistant content cannot end with trailing whitespace, found {said[-1]['text'][-20:]!r}"


def a_user_speaks_last(body: Wire) -> Iterator[str]:
    # Models since Claude 4.6 finish no sentence that others began (https://github.com/cortexkit/magic-context/issues/512);
    # a turn in which the provider's own tools run, or that it has compacted, is sent back as it is, to go on:
    # https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
    last = body["messages"][-1]
    kinds = {block["type"] for block in blocks_of(last)}
    if last["role"] == "assistant" and kinds <= {"text", "thinking", "redacted_thinking"}:
        yield f"the conversation must end with a user message, found the assistant's {sorted(kinds)}"


def calls_are_answered_at_once(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/claude-code/issues/5060
    for at, message, following in pairs(body):
        answered = ids(following, "tool_result", "tool_use_id") if following["role"] == "user" else []
        for call in ids(message, "tool_use", "id"):
            if call not in answered:
                yield f"messages.{at}: tool_use {call!r} has no tool_result immediately after"


def results_have_a_call(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/claude-code/issues/13460
    asked: list[Any] = []
    for at, message in enumerate(body["messages"]):
        for result in ids(message, "tool_result", "tool_use_id"):
            if result not in asked:
                yield f"messages.{at}: tool_result {result!r} has no tool_use in the previous message"
        asked = ids(message, "tool_use", "id")


def no_call_has_two_results(body: Wire) -> Iterator[str]:
    # https://github.com/vectorize-io/hindsight/pull/4250
    results = [result for message in body["messages"] for result in ids(message, "tool_result", "tool_use_id")]
    yield from duplicates(results, "a tool_result for")


def results_come_first(body: Wire) -> Iterator[str]:
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
    for at, message in enumerate(body["messages"]):
        kinds = [block["type"] == "tool_result" for block in blocks_of(message)]
        if kinds != sorted(kinds, reverse=True):
            yield f"messages.{at}: tool_result blocks must come before all other content"


def results_of_a_program_stand_alone(body: Wire) -> Iterator[str]:
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
    for at, message, following in pairs(body):
        others = {block["type"] for block in blocks_of(following)} - {"tool_result"}
        if any(map(is_programmatic, tool_uses(message))) and others:
            yield f"messages.{at + 1}: results of calls that code made must stand alone, found {sorted(others)}"


def tool_uses(message: Wire) -> list[Wire]:
    return [block for block in blocks_of(message) if block["type"] == "tool_use"]


def errors_are_text(body: Wire) -> Iterator[str]:
    # https://github.com/vellum-ai/vellum-assistant/pull/18387 and https://github.com/caozhiyuan/copilot-api/pull/196
    for place, block in blocks(body):
        is_error = block["type"] == "tool_result" and block.get("is_error")
        parts = block.get("content") if is_error and isinstance(block.get("content"), list) else []
        if kinds := {part.get("type") for part in parts} - {"text"}:
            yield f"{place}: all content must be text if is_error is true, found {sorted(kinds)}"


def ids_are_unique(body: Wire) -> Iterator[str]:
    # https://github.com/CherryHQ/cherry-studio/issues/14128
    used = [block.get("id") for _, block in blocks(body) if block["type"] in ("tool_use", "server_tool_use")]
    yield from duplicates(used, "the id of a call")


def ids_fit(body: Wire) -> Iterator[str]:
    # https://github.com/CommandCodeAI/command-code/issues/323 and https://github.com/ding113/claude-code-hub/issues/470
    for place, block in blocks(body):
        field = {"tool_use": "id", "tool_result": "tool_use_id", "server_tool_use": "id"}.get(block["type"])
        begin = "srvtoolu_" if block["type"] == "server_tool_use" else ""
        if field and not re.fullmatch(begin + "[a-zA-Z0-9_-]+", str(block.get(field) or "")):
            yield f"{place}.{field} must match ^{begin}[a-zA-Z0-9_-]+$, found {block.get(field)!r}"


def names_fit(body: Wire) -> Iterator[str]:
    # https://github.com/corespeed-io/zypher-agent/pull/97 and https://github.com/anomalyco/opencode/issues/48750
    yield from name_faults((tool.get("name") for tool in body.get("tools", ()) if "name" in tool), 128, "a tool's name")
    used = [block.get("name") for _, block in blocks(body) if block["type"] in ("tool_use", "server_tool_use")]
    yield from name_faults(used, 128, "the name of a tool_use")


def inputs_are_objects(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/claude-code/issues/6696; the SDK's type ServerToolUseBlockParam says the same.
    for place, block in blocks(body):
        if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use") and not isinstance(
            block.get("input"), dict
        ):
            yield f"{place}.{block['type']}.input should be an object, found {str(block.get('input'))[:60]!r}"


def breakpoints_are_few(body: Wire) -> Iterator[str]:
    # https://github.com/Wei-Shaw/sub2api/issues/176
    if len(places := marked(body)) > 4:
        yield f"at most 4 blocks may have cache_control, found {len(places)}: {[place for place, _ in places]}"


def breakpoints_are_allowed(body: Wire) -> Iterator[str]:
    # https://github.com/askalf/dario/issues/1066 and
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-can-be-cached
    for place, block in marked(body):
        blank = block.get("type") == "text" and not str(block.get("text")).strip()
        if blank or block.get("type") in ("thinking", "redacted_thinking"):
            yield f"{place}: cache_control cannot be set for empty text or thinking"


def long_breakpoints_come_first(body: Wire) -> Iterator[str]:
    # https://github.com/cnighswonger/claude-code-cache-fix/issues/44
    short = ""
    for place, block in marked(body):
        if block["cache_control"].get("ttl", "5m") == "5m":
            short = short or place
        elif short:
            yield f"{place}: a ttl of 1h must not come after one of 5m, which is at {short}"


def media_are_what_they_say(body: Wire) -> Iterator[str]:
    for place, block in nested(body):
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") == "url":
            # https://platform.claude.com/docs/en/build-with-claude/pdf-support: it has an address, and no media type.
            yield from (f"{place}: {fault}" for fault in link_faults(source.get("url")))
            if extra := sorted(source.keys() - {"type", "url"}):
                yield f"{place}: a source that is an address has no {extra}"
        if not isinstance(source, dict) or source.get("type") != "base64":
            continue
        if block["type"] == "image":
            yield from (f"{place}: {fault}" for fault in image_faults(source.get("media_type", ""), source["data"]))
        # https://platform.claude.com/docs/en/build-with-claude/pdf-support: of documents, only PDFs come as base64.
        if block["type"] == "document" and source.get("media_type") != "application/pdf":
            yield f"{place}: a document in base64 must be application/pdf, found {source.get('media_type')!r}"
        if block["type"] == "document" and decoded(source["data"]) is None:
            yield f"{place}: the data of a document is not base64"


def pending_code_has_its_container(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/anthropic-sdk-typescript/issues/1114 and
    # https://github.com/anthropics/anthropic-sdk-python/issues/1801
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    calls = tool_uses(said[-1]) if said else []
    waiting = [block for block in unanswered(body) if "code_execution" in str(block.get("name"))]
    if calls and (waiting or any(map(is_programmatic, calls))) and not body.get("container"):
        yield "container is required when there are pending tool uses generated by code execution"


def unanswered(body: Wire) -> list[Wire]:
    """The calls of the provider's own tools that have no result in the request."""
    results = {block.get("tool_use_id") for _, block in blocks(body) if block["type"].endswith("_tool_result")}
    return [block for _, block in blocks(body) if block["type"] == "server_tool_use" and block.get("id") not in results]


def server_results_have_a_call(body: Wire) -> Iterator[str]:
    # https://github.com/anthropics/claude-code/issues/64383
    asked: set[Any] = set()
    for place, block in blocks(body):
        if block["type"] in ("server_tool_use", "mcp_tool_use"):
            asked.add(block.get("id"))
        elif block["type"].endswith("_tool_result") and block.get("tool_use_id") not in asked:
            yield f"{place}: {block['type']} {block.get('tool_use_id')!r} has no server_tool_use before it"


def server_calls_have_a_result(body: Wire) -> Iterator[str]:
    # Unless the call is still under way, in the last message of the assistant: https://github.com/AnswerDotAI/lisette/issues/108
    said = [at for at, message in enumerate(body["messages"]) if message["role"] == "assistant"]
    last = body["messages"][said[-1]] if said else {"content": []}
    under_way = said and (said[-1] == len(body["messages"]) - 1 or tool_uses(last))
    allowed = ids(last, "server_tool_use", "id") if under_way else []
    for block in unanswered(body):
        if block.get("id") not in allowed:
            yield f"server_tool_use {block.get('id')!r} ({block.get('name')}) has no result block"


def citations_are_whole(body: Wire) -> Iterator[str]:
    # The SDK's type TextCitationParam; a type that nobody knows is one of a later version.
    for place, block in nested(body):
        for citation in (block.get("citations") or ()) if block["type"] == "text" else ():
            missing = CITED.get(citation.get("type"), set()) - citation.keys()
            if missing or citation.get("type") in (None, *ANNOTATIONS):
                yield f"{place}: a citation misses {sorted(missing)} or is none of this API: {citation}"


def tools_fit(body: Wire) -> Iterator[str]:
    # https://github.com/danny-avila/LibreChat/issues/13162: hosted tools count by their names.
    tools = body.get("tools", ())
    yield from duplicates((tool.get("name") for tool in tools), "a tool named")
    for tool in tools:
        if "input_schema" in tool or "type" not in tool:
            yield from schema_faults(tool.get("input_schema"), f"input_schema of {tool.get('name')!r}")


def the_format_can_be_held(body: Wire) -> Iterator[str]:
    form = (body.get("output_config") or {}).get("format") or {}
    if "schema" in form:
        yield from held_faults(form["schema"], "output_config.format.schema")


def the_choice_exists(body: Wire) -> Iterator[str]:
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools#forcing-tool-use
    choice = body.get("tool_choice")
    if not choice:
        return
    names = [tool.get("name") for tool in body.get("tools", ())]
    if not names:
        yield "tool_choice may only be specified while providing tools"
    elif choice.get("type") == "tool" and choice.get("name") not in names:
        yield f"tool_choice names {choice.get('name')!r}, which is not among the tools"
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    if thinks and choice.get("type") in ("any", "tool"):
        yield "thinking may not be enabled when tool_choice forces tool use"


def the_budget_fits(body: Wire) -> Iterator[str]:
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        yield f"budget_tokens must be from 1024 to below max_tokens, found {thinking} and {body['max_tokens']}"


OF_THE_WHOLE = (
    a_user_speaks_first_and_roles_alternate,
    thinking_begins_a_pending_turn,
    the_last_text_has_no_blanks_at_its_end,
    a_user_speaks_last,
    calls_are_answered_at_once,
    results_have_a_call,
    no_call_has_two_results,
    results_come_first,
    results_of_a_program_stand_alone,
    pending_code_has_its_container,
    server_results_have_a_call,
    server_calls_have_a_result,
)
"""What a whole conversation must be, and a part of one need not."""

OF_EACH_PART = (
    nothing_is_empty,
    thinking_is_not_last,
    thinking_is_signed,
    errors_are_text,
    ids_are_unique,
    ids_fit,
    names_fit,
    inputs_are_objects,
    breakpoints_are_few,
    breakpoints_are_allowed,
    long_breakpoints_come_first,
    media_are_what_they_say,
    citations_are_whole,
    tools_fit,
    the_format_can_be_held,
    the_choice_exists,
    the_budget_fits,
)

OF_THE_SERVER = (thinking_is_signed,)
"""The rules that are told the names of the fields that the server has sent."""
