"""The items of the Responses API: our messages as its input, and its output as our blocks.

Fields of an item that our blocks do not hold stay in a `ProviderBlock` without a type, directly before the blocks of
that item. Such a block is also where a message of several parts begins: without one, each text is a message.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from ... import messages as ours
from ...media import IMAGES, sendable
from ...messages import clean, parse_arguments, to_json
from ..adapter import Wire, extra_fields, own_json, sendable as sendable_json, sent_name
from ..body import Part, encode
from . import client_calls, sdk
from .citations import citations

PROVIDER = "openai"

OWN = frozenset({"type", "id", "status", "role", "content", "call_id", "name", "arguments"})
"""The fields of a message or a call that our blocks hold, or that are needed beside reasoning only."""

DOCUMENTS = "application/pdf", "text/", "application/json", "application/rtf", "application/msword", "application/vnd."
"""The documents that the API reads: https://developers.openai.com/api/docs/guides/file-inputs"""


# ---- a request


class Said(Part, frozen=True, gc=False):
    """A message as input items."""

    ids: frozenset[str] = frozenset()
    """The ids of these items, none of which may stand twice in a request."""
    calls: Sequence[tuple[str, Wire]] = ()
    """Calls whose answers depend on them, by their ids."""


def input_items(message: ours.Message, *, stored: bool, with_ids: bool = True) -> Said:
    """Return *message* as input items; there are none if all of it is another provider's.

    *stored* says whether the provider keeps the items of its replies.
    """
    match message:
        case ours.AssistantMessage():
            items = _accepted(_said(message.blocks), stored=stored, with_ids=with_ids)
            ids = frozenset(item["id"] for item in items if item.get("id"))
            calls = [(item["call_id"], item) for item in items if _is_special(item)]
            return Said([encode(item) for item in items], ids, calls)
        case ours.ToolMessage():
            return answer_items(message, {"type": "function_call"})
        case _:
            return Said([encode(item) for item in _asked(message.blocks)])


def answer_items(result: ours.ToolMessage, call: Wire) -> Said:
    """Return *result* as the item that answers *call*, and what such an item cannot hold as a message behind it."""
    only_text = all(isinstance(block, ours.Text) for block in result.blocks)
    item, rest = client_calls.answer(call, result, result.text if only_text else _parts(result.blocks) or "")
    return Said([encode(one) for one in (item, *_asked(rest))])


def _is_special(item: Wire) -> bool:
    """Return True for a call that is not answered by a plain `function_call_output`."""
    return item.get("type") in client_calls.ANSWERED or (item.get("type") == "function_call" and "caller" in item)


def _asked(blocks: Iterable[ours.AnyBlock]) -> list[Wire]:
    parts = _parts(blocks)
    return [{"role": "user", "content": parts}] if parts else []


def _parts(blocks: Iterable[ours.AnyBlock]) -> list[Wire]:
    return [part for block in blocks if (part := _part(block))]


def _part(block: ours.AnyBlock) -> Wire | None:
    """Return *block* as a part of a message or a result. What the API does not take is a text that says so."""
    match _taken(block):
        case ours.Text(text):
            return {"type": "input_text", "text": text}
        case ours.Image() as image:
            return {"type": "input_image", "image_url": sdk.data_url(image), "detail": "auto"}
        case ours.Document() as file:
            return {"type": "input_file", "filename": sdk.file_name(file), "file_data": sdk.data_url(file)}
        case other:
            return own_json(other, PROVIDER)


def _taken(block: ours.AnyBlock) -> ours.AnyBlock:
    match block:
        case ours.Image():
            return sendable(block, *IMAGES)
        case ours.Document():
            return sendable(block, *DOCUMENTS)
        case ours.Audio():
            return sendable(block)
        case ours.Video():
            return sendable(block)
        case _:
            return block


class _Items:
    """What the model said in one reply, item by item, as its blocks are added."""

    def __init__(self) -> None:
        self.items: list[Wire] = []
        self.unanswered: list[Wire] = []
        """Those items that await an answer, but that no call to a tool of the agent follows."""
        self._beside: Wire | None = None
        self._parts: list[Wire] | None = None

    def add(self, block: ours.AnyBlock) -> None:
        match block:
            case ours.Text():
                if block.text:
                    self._add_text(block)
            case ours.ToolCall():
                self._add_call(block)
            case _:
                if (own := own_json(block, PROVIDER)) is not None:
                    self._add_own(own)

    def _add_text(self, block: ours.Text) -> None:
        cited = [sendable_json(one.raw) for one in block.citations if one.provider == PROVIDER]
        part: Wire = {"type": "output_text", "text": block.text, "annotations": cited}
        if self._parts is not None:
            self._parts.append(part)
            return
        parts = [part]
        self.items.append({"type": "message", "role": "assistant", "content": parts} | (self._beside or {}))
        self._parts = parts if self._beside is not None else None
        self._beside = None

    def _add_call(self, block: ours.ToolCall) -> None:
        call_id = sdk.call_id(block.id)
        if self.unanswered and self.unanswered[-1] is self.items[-1]:
            self.unanswered.pop()["call_id"] = call_id
        else:
            called = {"type": "function_call", "call_id": call_id, "name": sent_name(block.name)}
            self.items.append(called | {"arguments": sdk.arguments_text(block)} | (self._beside or {}))
        self._beside = self._parts = None

    def _add_own(self, item: Wire) -> None:
        self._beside = self._parts = None
        if "type" not in item and "role" not in item:
            self._beside = item
            return
        self.items.append(item)
        if client_calls.call_in(item):
            self.unanswered.append(item)


def _said(blocks: Iterable[ours.AnyBlock]) -> list[Wire]:
    """Return what the model said, without calls that nobody has answered, which would be refused."""
    said = _Items()
    for block in blocks:
        said.add(block)
    answered = _answered(said.items)
    open_calls = {id(item) for item in said.unanswered if item.get("call_id") not in answered}
    return [item for item in said.items if id(item) not in open_calls]


def _answered(items: Iterable[Wire]) -> set[Any]:
    """Return the ids of the calls that the provider itself has answered among *items*."""
    return {item.get("call_id") for item in items if str(item.get("type")).endswith("_output")}


# ---- what of it is accepted


def _accepted(items: list[Wire], *, stored: bool, with_ids: bool) -> list[Wire]:
    """Return *items* in the form in which the API takes them back, as short as possible.

    Messages and calls have their ids beside reasoning only, which the API looks for by them and the other way round.
    """
    ids = [item["id"] for item in items if item.get("id")]
    if not with_ids or len(set(ids)) < len(ids):
        items = [_without(item, "id") for item in items]
    items = _with_company(items, stored=stored)
    if not any(item["type"] == "reasoning" and item.get("id") for item in items if "type" in item):
        items = [_without(item, "id", "status") if _is_plain(item) else item for item in items]
    return [_shortened(item) for item in items]


def _with_company(items: list[Wire], *, stored: bool) -> list[Wire]:
    """Return *items* without reasoning that the API would refuse: with nothing behind it, or with nothing in it.

    It needs an id if the provider is to find it. If the item behind it has none, as in older logs, it is sent as new
    reasoning, without an id.
    """
    kept: list[Wire] = []
    for item in reversed(items):
        if item.get("type") == "reasoning":
            with_id = bool(kept and kept[-1].get("id"))
            found = stored and with_id and item.get("id")
            if not kept or not (found or item.get("encrypted_content") or item.get("content")):
                continue
            item = item if with_id else _without(item, "id")
            if not isinstance(item.get("summary"), list):
                item["summary"] = []
        kept.append(item)
    return kept[::-1]


def _is_plain(item: Wire) -> bool:
    return item.get("type") in ("message", "function_call")


def _without(item: Wire, *names: str) -> Wire:
    return {name: value for name, value in item.items() if name not in names}


def _shortened(item: Wire) -> Wire:
    match item:
        case {"type": "message", "role": "assistant", "content": [{"text": text, "annotations": []}]} if (
            "id" not in item
        ):
            return _without(item, "type") | {"content": text}
        case _:
            return item


# ---- a reply


def blocks_of(items: list[Wire]) -> list[ours.AnyBlock]:
    """Return the output *items* of a reply as blocks.

    Reasoning, and what only the provider understands, keeps its JSON. Messages and calls beside reasoning keep their
    ids: the API wants them back together.
    """
    own = OWN - {"id", "status"} if any(item.get("type") == "reasoning" for item in items) else OWN
    answered = _answered(items)
    blocks: list[ours.AnyBlock] = []
    after_message = False
    for item in items:
        is_said = is_message(item)
        if is_said:
            blocks += _message(item, own, after_message)
        else:
            blocks += _other(item, own, answered)
        after_message = is_said
    return blocks


def is_message(item: Wire) -> bool:
    return item.get("type") == "message" or ("type" not in item and "content" in item)


def _message(item: Wire, own: frozenset[str], after_message: bool) -> Iterable[ours.AnyBlock]:
    texts = [
        ours.Text(clean(text), citations(part.get("annotations"), PROVIDER))
        for part in parts_of(item.get("content"))
        if isinstance(text := part.get("text") or part.get("refusal"), str)
    ]
    if not texts:
        return ()
    beside = _beside(item, own)
    if not beside and (after_message or len(texts) > 1):
        beside = (ours.ProviderBlock(PROVIDER, b"{}"),)
    return *beside, *texts


def _other(item: Wire, own: frozenset[str], answered: Collection[Any]) -> Iterable[ours.AnyBlock]:
    match item:
        case {"type": "function_call"}:
            arguments = parse_arguments(sdk.json_text(item.get("arguments")))
            return *_beside(item, own | {"status"}), ours.ToolCall(
                str(item.get("name") or ""), arguments, item.get("call_id")
            )
        case {"type": "reasoning"}:
            parts = parts_of(item.get("summary")) or parts_of(item.get("content"))
            text = "\n\n".join(str(part.get("text") or "") for part in parts)
            return (ours.Thinking(clean(text), PROVIDER, to_json(item)),)
        case _:
            call = None if item.get("call_id") in answered else client_calls.call_in(item)
            block = ours.ProviderBlock(PROVIDER, to_json(item))
            return (block, call) if call else (block,)


def _beside(item: Wire, own: frozenset[str]) -> tuple[ours.AnyBlock, ...]:
    """Return the fields of *item* that our blocks do not hold. That a call is direct is what it is anyway."""
    direct = {"caller"} if item.get("caller") == {"type": "direct"} else set[str]()
    return extra_fields(item, own | direct, PROVIDER)


def parts_of(content: Any) -> list[Wire]:
    """Return the parts of a content, which some servers send as a text, or as one part."""
    parts = cast(list[Any], content) if isinstance(content, list) else [content]
    said: list[Any] = [{"type": "output_text", "text": part} if isinstance(part, str) else part for part in parts]
    return [part for part in said if sdk.is_object(part)]
