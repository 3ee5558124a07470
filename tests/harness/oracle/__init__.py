"""An oracle: what the three APIs refuse by their public rules, asked of the body of a request.

    faults(raw, "/v1/messages")          # [] or one line for each fault: the rule, the place, what was found
    faults(raw, path, said={"reasoning_content"})   # fields that this server has sent, and may get back

Each rule is a function that yields the faults of a decoded body; its comment names the public source. A body of the
wrong shape is told by its shape alone, as the other rules could not read it. Nothing here knows the adapters.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from harness.oracle import chat, claude, responses

Rule = Callable[[dict[str, Any]], Iterator[str]]

RULES: dict[str, tuple[Rule, ...]] = {
    "/messages": claude.RULES,
    "/responses": responses.RULES,
    "/chat/completions": chat.RULES,
}
"""The rules by the end of the path to which a request is sent; the first rule is the shape."""


def faults(raw: bytes, path: str, said: Collection[str] = ()) -> list[str]:
    """Return what the API at *path* would refuse in the body *raw*; nothing for another path.

    *said* are the names of fields that the server has sent in its answers.
    """
    rules = next((rules for end, rules in RULES.items() if path.partition("?")[0].endswith(end)), ())
    if not rules:
        return []
    body, wrong = read(raw)
    if wrong:
        return [f"json: {fault}" for fault in wrong]
    shape, *others = rules
    if wrong := told(shape, body):
        return wrong
    wrong = [fault for rule in others for fault in told(rule, body)]
    return wrong + (told(chat.fields_are_known, body, said) if shape is chat.shape else [])


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
