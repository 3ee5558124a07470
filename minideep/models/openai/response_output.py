"""The output of the Responses API as our blocks.

Fields of an item that our blocks do not hold stay in a `ProviderBlock` without a type, directly before the blocks of
that item. Such a block is also where a message of several parts begins: without one, each text is a message.
"""

from collections.abc import Collection, Iterable
from typing import Any, cast

from ... import messages as ours
from ...messages import clean
from ...plain_json import parse_arguments, to_json
from ..adapter import Wire, extra_fields
from . import client_calls, sdk
from .citations import citations

OWN = frozenset({"type", "id", "status", "role", "content", "call_id", "name", "arguments"})
"""The fields of a message or a call that our blocks hold, or that are needed beside reasoning only."""


def blocks_of(items: list[Wire], provider: str) -> list[ours.AnyBlock]:
    """Return the output *items* of a reply as blocks; what only *provider* understands is in blocks of its own.

    Reasoning, and what only the provider understands, keeps its JSON. Messages and calls beside reasoning keep their
    ids: the API wants them back together.
    """
    own = OWN - {"id", "status"} if any(item.get("type") == "reasoning" for item in items) else OWN
    answered = client_calls.answered(items)
    blocks: list[ours.AnyBlock] = []
    after_message = False
    for item in items:
        is_said = is_message(item)
        if is_said:
            blocks += _message(item, own, provider, after_message)
        else:
            blocks += _other(item, own, provider, answered)
        after_message = is_said
    return blocks


def is_message(item: Wire) -> bool:
    return item.get("type") == "message" or ("type" not in item and "content" in item)


def _message(item: Wire, own: frozenset[str], provider: str, after_message: bool) -> Iterable[ours.AnyBlock]:
    texts = [
        ours.Text(clean(text), citations(part.get("annotations"), provider))
        for part in parts_of(item.get("content"))
        if isinstance(text := part.get("text") or part.get("refusal"), str)
    ]
    if not texts:
        return ()
    beside = _beside(item, own, provider)
    if not beside and (after_message or len(texts) > 1):
        beside = (ours.ProviderBlock(provider, b"{}"),)
    return *beside, *texts


def _other(item: Wire, own: frozenset[str], provider: str, answered: Collection[str]) -> Iterable[ours.AnyBlock]:
    match item:
        case {"type": "function_call"}:
            arguments = parse_arguments(sdk.json_text(item.get("arguments")))
            return *_beside(item, own | {"status"}, provider), ours.ToolCall(
                str(item.get("name") or ""), arguments, client_calls.call_id(item)
            )
        case {"type": "reasoning"}:
            parts = parts_of(item.get("summary")) or parts_of(item.get("content"))
            text = "\n\n".join(str(part.get("text") or "") for part in parts)
            return (ours.Thinking(clean(text), provider, to_json(item)),)
        case _:
            call = None if client_calls.call_id(item) in answered else client_calls.call_in(item)
            block = ours.ProviderBlock(provider, to_json(item))
            return (block, call) if call else (block,)


def _beside(item: Wire, own: frozenset[str], provider: str) -> tuple[ours.AnyBlock, ...]:
    """Return the fields of *item* that our blocks do not hold. That a call is direct is what it is anyway."""
    direct = {"caller"} if item.get("caller") == {"type": "direct"} else set[str]()
    return extra_fields(item, own | direct, provider)


def parts_of(content: Any) -> list[Wire]:
    """Return the parts of a content, which some servers send as a text, or as one part."""
    parts = cast(list[Any], content) if isinstance(content, list) else [content]
    said: list[Any] = [{"type": "output_text", "text": part} if isinstance(part, str) else part for part in parts]
    return [part for part in said if sdk.is_object(part)]
