"""Count the tokens that a run has in context, as its messages are shown. Everything follows from the state."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ...context import ToolContext
from ...events import Noted
from ...messages import Message, Messages, ToolMessage, UserMessage, list_behind
from ...ports import Backend, Request
from ...state import AnyState, FileEntry, behind
from . import tokens
from .spill import result_stub, with_short_arguments
from .view import View

DRIFT = 0.02
"""The error of a count, as a share of the tokens allowed, above which a correction is recorded."""
LEARNT_FROM = 4_000
"""Tokens. In a smaller request the fixed part, such as the provider's own prompt for tools, says more than the text."""
RATIOS = 0.5, 2.5
"""The bounds of a ratio: what lies beyond is the offset's."""
SUMMARIES = "summarization"
"""The owner of the notes with these keys:"""
RATIO = "ratio"
"""Tokens that the provider counts for one of ours, by the name of the model. What is new is expected to as well."""
OFFSET = "offset"
"""Tokens that the provider counts besides."""
SHORTENED = "shortened"
"""The index of the message before which the arguments of calls are shortened."""
STUBS = "stubs"
"""The files of results that are shown as stubs, by call id; "" for a result that could not be written."""
OVERFLOW = "overflow"
"""The tokens of the smallest request that was refused as too large, by the name of the model."""


class ContextSize(View):
    """Shows the messages of one run, and counts each of them once.

    The count is corrected by what the provider reports of each request, but only as far as the correction is recorded:
    another one would be forgotten by a restart, and the model would be shown something else.

    What concerns the last request is not kept from turn to turn: *before* may be of a turn that was cut short.
    """

    __slots__ = ("_head", "_system", "_tools", "counted", "last_counted", "model", "notes", "offset", "overflow",
        "ratio", "ratios", "recounted", "reported", "shortened", "sizes", "stubs", "summarizing")  # fmt: skip

    def __init__(self, backend: Backend, before: "ContextSize | None" = None) -> None:
        super().__init__(backend, before)
        self._head = 0.0
        self._system: str | None = None
        self._tools: object = None
        self.recounted: bool = False
        """True if the messages were counted as they are, not as hooks before show them."""
        self.last_counted: float = 0.0
        """Our count of the last request; 0 if there was none."""
        self.reported: int = 0
        """The provider's count of the last request; 0 if it reported none."""
        self.model: str = ""
        """The name of the model that is asked."""
        self.ratio: float = 1.0
        self.summarizing: bool = False
        self.counted: float = 0.0
        """Our count of the next request."""
        self.sizes: list[float] = []
        """The tokens of each message."""
        self._read_notes({})
        if before is not None:
            self._head, self._system, self._tools = before._head, before._system, before._tools
            self.recounted, self.counted, self.sizes = before.recounted, before.counted, before.sizes.copy()
            self._read_notes({SUMMARIES: before.notes})

    def update(self, state: AnyState, request: Request) -> None:
        """Count the messages that are new, as *request* shows them; after a compaction, all of them."""
        # By identity: the same objects come with every step, and comparing a long prompt costs.
        if request.system is not self._system or request.tools is not self._tools:
            self._system, self._tools = request.system, request.tools
            self._head, before = tokens.of_head(request), self._head
            self.counted += self._head - before
        history, given = behind(state).messages, request.messages
        source = list_behind(given) if type(given) is Messages else self.source
        if self.history is not history or self.source is not source:
            self._restart(state)
        self.given: Sequence[Message] = given
        self.source = source
        self._add(state, given[len(self.messages) : len(history)])

    def recount(self, state: AnyState) -> None:
        """Count all messages again, because they, or notes on how they are shown, have changed."""
        given, source, end = self.given, self.source, len(self.messages)
        # How hooks before show the messages of a new list is not known before the next request.
        as_given = self.history is behind(state).messages and not self.recounted
        self._restart(state)
        self.recounted = not as_given
        self._add(state, given[:end] if as_given else state.messages)
        if as_given:
            self.given = given
            self.source: Any = source

    def _restart(self, state: AnyState) -> None:
        self.restart(behind(state).messages)
        self._read_notes(state.notes)
        self.sizes, self.counted, self.recounted = [], self._head, False

    def _add(self, state: AnyState, new: Sequence[Message]) -> None:
        messages, sizes, counted, plain = self.messages, self.sizes, self.counted, not self.notes
        for message in new:
            shown = message
            if not plain or type(message) is UserMessage:  # Without notes only a user's message can be a stub.
                shown = self._shown(state.files, message, len(sizes))
                if shown is not message:
                    self.note_change()
            size = tokens.of_message(shown)
            messages.append(shown)
            sizes.append(size)
            counted += size
        self.counted = counted

    @property
    def tokens(self) -> float:
        """The tokens of the next request as the provider will count them, as far as is known."""
        return self.counted * self.ratio + self.offset

    def ask(self, model: str) -> None:
        """Count as the model of this name does."""
        self.model = model
        self.ratio = self.ratios.get(model, 1.0)

    def correct(self, ctx: ToolContext, most: float) -> None:
        """Record by how much the provider's count of the last request differs, if that matters for *most* tokens."""
        counted, reported = self.last_counted, self.reported
        self.last_counted, self.reported = 0.0, 0
        # A reply that reports nothing, or a request that was never counted, says nothing about our error.
        if not counted or reported <= 0 or abs(reported - counted * self.ratio - self.offset) <= DRIFT * most:
            return
        if counted >= LEARNT_FROM:
            lowest, highest = RATIOS
            ratio = round(min(max(reported / counted, lowest), highest), 3)
            self.note(ctx, RATIO, {**self.ratios, self.model: ratio})
        self.note(ctx, OFFSET, round(reported - counted * self.ratio))

    def note(self, ctx: ToolContext, key: str, value: Any) -> None:
        """Record *value*, or delete the note if it is empty. A turn that has ended takes no more notes."""
        if (value or None) != self.notes.get(key) and ctx.state.status == "running":
            ctx.record(Noted(SUMMARIES, key, value, "replace" if value else "delete"))
            self._read_notes(ctx.state.notes)

    def _read_notes(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        self.notes: dict[str, Any] = dict(notes.get(SUMMARIES, {}))
        self.ratios: Mapping[str, float] = self.notes.get(RATIO, {})
        self.ratio = self.ratios.get(self.model, 1.0)
        self.offset: int = self.notes.get(OFFSET, 0)
        self.shortened: int = self.notes.get(SHORTENED, 0)
        self.stubs: Mapping[str, str] = self.notes.get(STUBS, {})
        self.overflow: Mapping[str, int] = self.notes.get(OVERFLOW, {})

    def _shown(self, files: Mapping[str, FileEntry], message: Message, index: int) -> Message:
        if isinstance(message, UserMessage):
            return self.shown_message(message, files)
        if isinstance(message, ToolMessage):
            path = self.stubs.get(message.call_id)
            return structs.replace(message, content=result_stub(message, path)) if path is not None else message
        return with_short_arguments(message) if index < self.shortened else message
