"""Our messages as the input of the Responses API."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ... import messages as ours
from ...media import DOCUMENTS, IMAGES, sendable
from ..adapter import Wire, own_json, sendable as sendable_json, sent_name
from ..body import Encoded, Part, encode
from . import client_calls, sdk

PROVIDER = "openai"
"""The provider of blocks in older logs, whatever the server was."""

URL_TYPES = (*IMAGES, *DOCUMENTS)
"""The media that the API fetches: https://developers.openai.com/api/docs/guides/file-inputs and
https://developers.openai.com/api/docs/guides/images-vision"""


class Server(Struct, frozen=True):
    """Whom a request is for, and which of the blocks in a thread are its own."""

    provider: str = PROVIDER
    """The provider of its blocks: `openai:` and the server. None can read what another has encrypted."""
    stored: bool = False
    """Whether it keeps the items of its replies."""

    def owns(self, provider: str) -> bool:
        return provider in (self.provider, PROVIDER)

    def own(self, block: ours.AnyBlock) -> Any:
        """Return the JSON in *block* that goes back to this server; None if there is none."""
        provider = block.provider if isinstance(block, ours.Thinking | ours.ProviderBlock) else ""
        return own_json(block, provider) if self.owns(provider) else None


class Conversation:
    """The input of requests to one server. Messages are encoded once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._said = Encoded(partial(input_items, to=server))
        self._said_again = Encoded(partial(input_items, to=server, with_ids=False))
        self._answers = Encoded(partial(answer_items, to=server))

    def items(self, messages: Iterable[ours.Message]) -> list[bytes]:
        """Return the input items of *messages*, each as JSON."""
        parts: list[bytes] = []
        calls: dict[str, Wire] = {}
        ids: set[str] = set()
        for message in messages:
            if calls and isinstance(message, ours.ToolMessage) and (call := calls.get(sdk.call_id(message.call_id))):
                parts += self._answers(message, call).parts
                continue
            said = self._said(message)
            if said.ids:
                # Some servers give every reply the same ids.
                said = said if ids.isdisjoint(said.ids) else self._said_again(message)
                ids |= said.ids
            if said.calls:
                calls.update(said.calls)
            parts += said.parts
        return parts


class Said(Part, frozen=True, gc=False):
    """A message as input items."""

    ids: frozenset[str] = frozenset()
    """The ids of these items, none of which may stand twice in a request."""
    calls: Sequence[tuple[str, Wire]] = ()
    """Calls whose answers depend on them, by their ids."""


def input_items(message: ours.Message, to: Server, with_ids: bool = True) -> Said:
    """Return *message* as input items; there are none if all of it is another provider's."""
    match message:
        case ours.AssistantMessage():
            items = _accepted(_said(message.blocks, to), stored=to.stored, with_ids=with_ids)
            calls = [(item["call_id"], item) for item in items if _is_special(item)]
            return Said([encode(item) for item in items], frozenset(_ids(items)), calls)
        case ours.ToolMessage():
            item = {"type": "function_call_output", "call_id": sdk.call_id(message.call_id)}
            return Said([encode(item | {"output": _output(message, to)})])
        case _:
            return Said([encode(item) for item in _asked(message.blocks, to)])


def answer_items(result: ours.ToolMessage, call: Wire, to: Server) -> Said:
    """Return *result* as the item that answers *call*, and what such an item cannot hold as a message behind it."""
    item, rest = client_calls.answer(call, result, _output(result, to))
    return Said([encode(one) for one in (item, *_asked(rest, to))])


def _output(result: ours.ToolMessage, to: Server) -> str | list[Wire]:
    if isinstance(result.content, str):
        return result.content
    only_text = all(isinstance(block, ours.Text) for block in result.content)
    return result.text if only_text else _parts(result.content, to) or ""


def _is_special(item: Wire) -> bool:
    """Return True for a call that is not answered by a plain `function_call_output`."""
    return item.get("type") in client_calls.ANSWERED or (item.get("type") == "function_call" and "caller" in item)


def _asked(blocks: Iterable[ours.AnyBlock], to: Server) -> list[Wire]:
    parts = _parts(blocks, to)
    return [{"role": "user", "content": parts}] if parts else []


def _parts(blocks: Iterable[ours.AnyBlock], to: Server) -> list[Wire]:
    return [part for block in blocks if (part := _part(block, to))]


def _part(block: ours.AnyBlock, to: Server) -> Wire | None:
    """Return *block* as a part of a message or a result. What the API does not take is a text that says so."""
    match _taken(block):
        case ours.Text(text):
            return {"type": "input_text", "text": text}
        case ours.Image() as image:
            return {"type": "input_image", "image_url": sdk.data_url(image), "detail": "auto"}
        case ours.Document() as file:
            return {"type": "input_file", "filename": sdk.file_name(file), "file_data": sdk.data_url(file)}
        case ours.MediaLink(url, kind) if kind.startswith("image/"):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case ours.MediaLink(url):
            return {"type": "input_file", "file_url": url}
        case other:
            return to.own(other)


def _taken(block: ours.AnyBlock) -> ours.AnyBlock:
    match block:
        case ours.Image():
            return sendable(block, *IMAGES)
        case ours.Document():
            return sendable(block, *DOCUMENTS)
        case ours.MediaLink():
            return sendable(block, *URL_TYPES)
        case ours.Audio():
            return sendable(block)
        case ours.Video():
            return sendable(block)
        case _:
            return block


class _Items:
    """What the model said in one reply, item by item, as its blocks are added."""

    def __init__(self, to: Server) -> None:
        self._to = to
        self.items: list[Wire] = []
        self.unanswered: list[Wire] = []
        """Those items that are calls, but that no call to a tool of the agent follows."""
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
                if (own := self._to.own(block)) is not None:
                    self._add_own(own)

    def _add_text(self, block: ours.Text) -> None:
        cited = [sendable_json(one.raw) for one in block.citations if self._to.owns(one.provider)]
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
        if self._is_kept_whole(block):
            item = self.unanswered.pop()
            item |= {"call_id": call_id, **({"name": sent_name(block.name)} if "name" in item else {})}
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
        if item.get("type") in client_calls.ANSWERED:
            self.unanswered.append(item)

    def _is_kept_whole(self, block: ours.ToolCall) -> bool:
        """Return whether the item before *block* is this very call."""
        if not self.unanswered or self.unanswered[-1] is not self.items[-1]:
            return False
        call = client_calls.call_in(self.items[-1])
        return call is not None and call.name == block.name


def _said(blocks: Iterable[ours.AnyBlock], to: Server) -> list[Wire]:
    """Return what the model said, without calls that nobody has answered, which would be refused."""
    said = _Items(to)
    for block in blocks:
        said.add(block)
    if not said.unanswered:
        return said.items
    answered = client_calls.answered(said.items)
    open_calls = {id(item) for item in said.unanswered if client_calls.call_id(item) not in answered}
    return [item for item in said.items if id(item) not in open_calls]


# ---- what of it is accepted


def _accepted(items: list[Wire], *, stored: bool, with_ids: bool) -> list[Wire]:
    """Return *items* in the form in which the API takes them back, as short as possible.

    Messages and calls have their ids beside reasoning only, which the API looks for by them and the other way round.
    """
    ids = _ids(items)
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


def _ids(items: list[Wire]) -> list[str]:
    return [said for item in items if isinstance(said := item.get("id"), str) and said]


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
