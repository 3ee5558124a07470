"""An oracle: what the three APIs refuse by their public rules, asked of the body of a request.

    faults(raw, "/v1/messages")          # [] or one line for each fault: the rule, the place, what was found
    faults(raw, path, said={"reasoning_content"})   # fields that this server has sent, and may get back
    faults(raw, path, part=True)         # the messages are part of a conversation

Each rule is a function that yields the faults of a decoded body; its comment names the public source. A body of the
wrong shape is told by its shape alone, as the other rules could not read it. Nothing here knows the adapters.
"""

import json
from collections.abc import Callable, Collection, Iterator
from types import ModuleType
from typing import Any

from harness.oracle import chat, claude, responses

APIS: dict[str, ModuleType] = {
    "/messages": claude,
    "/messages/count_tokens": claude,
    "/responses": responses,
    "/responses/input_tokens": responses,
    "/chat/completions": chat,
}
"""The APIs by the end of the path to which a request is sent. Each has the rules of a shape, of parts and of a whole."""

COUNTED = {
    "/messages/count_tokens": "cache_control messages model output_config speed system thinking tool_choice tools",
    "/responses/input_tokens": "conversation input instructions model parallel_tool_calls personality"
    " previous_response_id reasoning text tool_choice tools truncation",
}
"""The fields of a request whose tokens are counted: the SDKs' types MessageCountTokensParams and InputTokenCountParams."""


def faults(raw: bytes, path: str, said: Collection[str] = (), part: bool = False) -> list[str]:
    """Return what the API at *path* would refuse in the body *raw*; nothing for another path.

    *said* are the names of fields that the server has sent in its answers.
    """
    end = next((end for end in APIS if path.partition("?")[0].endswith(end)), "")
    if not end:
        return []
    body, wrong = read(raw)
    if wrong:
        return [f"json: {fault}" for fault in wrong]
    if end in COUNTED:
        wrong = [f"fields: {name} is not counted" for name in sorted(body.keys() - set(COUNTED[end].split()))]
        body = {"max_tokens": 10**9} | body
    api = APIS[end]
    if wrong := wrong + told(api.shape, body):
        return wrong
    rules = (*api.OF_EACH_PART, *(() if part else api.OF_THE_WHOLE))
    return [
        fault
        for rule in rules
        for fault in told(rule, body, *([said] if rule in (*chat.OF_THE_SERVER, *claude.OF_THE_SERVER) else ()))
    ]


def told(rule: Callable[..., Iterator[str]], *given: Any) -> list[str]:
    return [f"{rule.__name__}: {fault}" for fault in rule(*given)]


def read(raw: bytes) -> tuple[Any, list[str]]:
    """Decode *raw* as a strict reader does; return the body, and what Python's own reader lets pass.

    Neither NaN nor the infinities are JSON, a name twice in one object is read in two ways by two readers, and half of
    a surrogate pair is no character: https://www.rfc-editor.org/rfc/rfc8259 and https://www.rfc-editor.org/rfc/rfc7493
    """
    wrong: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            wrong.append(f"a name stands twice in one object: {[name for name, _ in pairs]}")
        return dict(pairs)

    def number(name: str) -> None:
        wrong.append(f"{name} is not JSON")

    try:
        body = json.loads(raw.decode(), object_pairs_hook=once, parse_constant=number)
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        return None, [f"a lone surrogate: {exc.object[max(0, exc.start - 30) : exc.end + 30]!r}"]
    except ValueError as exc:
        return None, [str(exc)]
    return body, wrong
