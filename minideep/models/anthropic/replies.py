"""Replies of the Messages API as blocks, usage and cost."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ... import messages as ours
from ...messages import clean
from ...plain_json import parse_arguments, to_json
from ...ports import Reply
from ..adapter import Wire, extra_fields
from ..amounts import nested
from ..catalog import Tariff
from ..failures import BadReply
from .blocks import THOUGHTS
from .usage import cost_of, usage_of

STOPS: Mapping[str, ours.StopReason] = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "pause_turn": "continue",
    "compaction": "continue",
    # What gateways pass on of other providers, in lower case.
    "length": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
    "safety": "refused",
}
"""Every other reason is `done`: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""

OWN = frozenset({"type", "id", "name", "input"})
"""The fields of a call that `ToolCall` holds."""
DIRECT = {"type": "direct"}
"""The caller of a call that the model itself has made."""


def reply_of(answer: Any, tariff: Tariff, provider: str) -> Reply:
    """Return the reply in *answer* of *provider*, of which only the content must have the right form.

    Raises:
        BadReply: it has no content.
    """
    content, said = nested(answer, "content"), nested(answer, "usage")
    if not isinstance(content, str | list) and not ("content" in answer and content is None):
        raise BadReply(f"the answer should have a list as its content, found {to_json(answer).decode()[:200]}")
    wires = cast(list[Any], content) if isinstance(content, list) else [content]
    blocks = (*(block for wire in wires for block in _blocks(wire, provider)), *_container(answer, provider))
    stop = STOPS.get(str(nested(answer, "stop_reason")).lower(), "done")
    return Reply(ours.AssistantMessage(blocks), usage_of(said), stop, cost_of(said, tariff))


def _container(answer: Wire, provider: str) -> Iterable[ours.AnyBlock]:
    """Return the fields of the whole message that the next request needs."""
    container = nested(answer, "container")
    return (ours.ProviderBlock(provider, to_json({"container": container})),) if nested(container, "id") else ()


def _blocks(wire: Any, provider: str) -> tuple[ours.AnyBlock, ...]:
    """Convert a block; thinking and blocks that only the provider understands keep its JSON."""
    match wire:
        case str(text):
            return (ours.Text(clean(text)),)
        case {"type": "text"}:
            return (ours.Text(clean(_string(wire.get("text"))), _citations(wire.get("citations"), provider)),)
        case {"type": "tool_use"}:
            besides = {name: value for name, value in wire.items() if value != DIRECT}
            call = ours.ToolCall(_string(wire.get("name")), _arguments(wire.get("input")), _string(wire.get("id")))
            return *extra_fields(besides, OWN, provider), call
        case {"type": kind} if kind in THOUGHTS:
            return (ours.Thinking(clean(_string(wire.get("thinking"))), provider, to_json(wire)),)
        case {"type": str()}:
            return (ours.ProviderBlock(provider, to_json(wire)),)
        case _:
            return ()


def _string(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _arguments(value: Any) -> bytes:
    """Return the input of a call; some gateways send it as text, or nothing."""
    if isinstance(value, dict):
        return to_json(value)
    return parse_arguments(value if isinstance(value, str) else to_json(value).decode() if value else "")


def _citations(said: Any, provider: str) -> tuple[ours.Citation, ...]:
    listed = cast(list[Any], said) if isinstance(said, list) else []
    return tuple([_citation(one, provider) for one in listed if isinstance(nested(one, "type"), str)])


def _citation(said: Wire, provider: str) -> ours.Citation:
    """Return a source: a page of the web, a result of a search, or a document, which has a title only.

    The places that it names are in the source, not in the text.
    """
    source = clean(_string(said.get("source")))
    return ours.Citation(
        url=clean(_string(said.get("url"))) or (source if "://" in source else ""),
        title=clean(_string(said.get("title") or said.get("document_title"))) or source,
        quote=clean(_string(said.get("cited_text"))),
        provider=provider,
        raw=to_json(said),
    )
