"""Replies at random in the words of each API, good and bad: `st.lists(REPLIES["anthropic"])`.

Whatever a model may write is at random: texts, names, arguments, ids, why it stops and where it is cut. What only the
provider's own code writes has its form, such as the ids of items and the results of its own tools.
"""

from itertools import count
from typing import Any

from hypothesis import strategies as st

from harness.wires import chat, claude, responses

Wire = dict[str, Any]
NUMBERS = count(10_000)

TEXTS = st.sampled_from(["so", "", " ", "so \n", "x\ud800y"])
NAMES = st.sampled_from(["ls", "ls", "look", "fail", "", " ", "weather<|channel|>json", "a.b", "a" * 300, "prüfe"])
WRITTEN = st.sampled_from(["{}", '{"path": "/"}', '{"path": "/', "", "[1]", "null", "text", '{"path": NaN}'])
OBJECTS = st.sampled_from([{}, {"path": "/"}, {"path": "\ud800"}, {"path": float("nan")}])
CALL_IDS = st.sampled_from(["a", "b", "call 1|x", "", None, "c" * 100]) | st.builds(lambda: new("call"))


def new(kind: str) -> str:
    return f"{kind}_{next(NUMBERS)}"


def joined(*parts: st.SearchStrategy[list[Wire]]) -> st.SearchStrategy[list[Wire]]:
    """Up to five of *parts*, one behind the other."""
    return st.lists(st.one_of(*parts), max_size=5).map(lambda found: [one for part in found for one in part])


def sometimes(**fields: Any) -> st.SearchStrategy[Wire]:
    """Some of *fields*."""
    return st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in fields.items()})


# ---- the Messages API


def search(cut: bool, answered: bool) -> list[Wire]:
    used = {"type": "server_tool_use", "id": new("srvtoolu"), "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": used["id"], "content": []}
    return [used | ({"input": '{"query": "x'} if cut else {}), *([found] if answered and not cut else [])]


CITED = {"type": "web_search_result_location", "cited_text": "a", "encrypted_index": "i", "title": None, "url": "u"}
TEXT = st.builds(lambda said, more: [claude.text(said) | more], TEXTS, sometimes(citations=[CITED]))
THOUGHT = TEXTS.map(lambda said: [{"type": "thinking", "thinking": said, "signature": "c2ln"}])
USE = st.builds(
    lambda id, name, input, more: [{"type": "tool_use", "id": id, "name": name, "input": input} | more],
    CALL_IDS,
    NAMES,
    OBJECTS | WRITTEN | st.none(),
    sometimes(caller={"type": "code_execution_20260120", "tool_id": "srvtoolu_0"}),
)
BLOCKS = joined(
    TEXT,
    THOUGHT,
    USE,
    st.builds(search, st.booleans(), st.booleans()),
    st.just([{"type": "redacted_thinking", "data": "b3A="}]),
    st.just([{"type": "not_yet_invented", "depth": [1, None]}]),
)
CONTAINER = {"id": "container_1", "expires_at": "2999-01-01T00:00:00Z"}


def message(content: list[Wire], stop: str) -> Wire:
    pauses = stop != "pause_turn" or any(block["type"] == "server_tool_use" for block in content)
    container = {"container": CONTAINER} if "code_execution" in str(content) else {}
    return claude.message(*content, stop=stop if pauses else "end_turn") | container


STOPS = st.sampled_from(["end_turn", "max_tokens", "tool_use", "pause_turn", "refusal"])


# ---- the Responses API


CLIENT_CALLS: list[Wire] = [
    {"type": "custom_tool_call", "name": "patch", "input": "*"},
    {"type": "shell_call", "action": {"commands": ["ls"]}},
    {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.md"}},
    {"type": "computer_call", "action": {"type": "screenshot"}, "pending_safety_checks": [{"id": "cu_1", "code": "x"}]},
]
PARTS = st.lists(
    st.builds(lambda said: {"type": "output_text", "text": said, "annotations": []}, TEXTS)
    | st.builds(lambda said: {"type": "refusal", "refusal": said}, TEXTS),
    max_size=3,
)
ITEMS = joined(
    st.builds(lambda more: [{"type": "reasoning", "id": new("rs"), "summary": []} | more],
              sometimes(encrypted_content="ZQ==")),
    st.builds(lambda parts, more: [responses.message("", id=new("msg")) | {"content": parts} | more], PARTS,
              sometimes(phase="commentary")),
    st.builds(lambda id, name, written: [responses.call(id or "", written, name=name) | {"id": new("fc")}],
              CALL_IDS, NAMES, WRITTEN),
    st.builds(lambda call, id: [call | {"id": new("ctc"), "call_id": id, "status": "completed"}],
              st.sampled_from(CLIENT_CALLS), CALL_IDS),
    st.builds(lambda: [{"type": "web_search_call", "id": new("ws"), "status": "completed", "action": {}}]),
    st.builds(lambda: [{"type": "not_yet_invented", "id": new("nyi"), "depth": [1, None]}]),
)  # fmt: skip
ENDS = st.sampled_from(
    [
        {},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    ]
)


# ---- Chat Completions


SAID: Wire = {
    "reasoning_content": "hm",
    "reasoning": "hm",
    "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}],
    "refusal": "no",
    "annotations": [
        {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
    ],
    "function_call": {"name": "ls", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "c2ln"}},
}
CONTENTS = st.sampled_from(
    [
        None,
        "",
        " ",
        "so",
        [],
        [{"type": "text", "text": "so"}],
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}],
    ]
)
CHAT_CALL = st.builds(
    lambda id, name, written, more: chat.call(id, "") | {"function": {"name": name, "arguments": written}} | more,
    CALL_IDS,
    NAMES,
    WRITTEN | OBJECTS,
    sometimes(extra_content={"google": {"thought_signature": "c2ln"}}),
)


def completion(content: Any, calls: list[Wire], more: Wire, finish: str | None) -> Wire:
    called = {"tool_calls": calls} if calls else {}
    return chat.completion({"content": content} | called | more, finish)


FINISHES = st.sampled_from(["stop", "length", "tool_calls", "content_filter", None])


REPLIES: dict[str, st.SearchStrategy[Wire]] = {
    "anthropic": st.builds(message, BLOCKS, STOPS),
    "openai": st.builds(lambda items, end: responses.response(*items, **end), ITEMS, ENDS),
    "openai-chat": st.builds(completion, CONTENTS, st.lists(CHAT_CALL, max_size=3), sometimes(**SAID), FINISHES),
}
