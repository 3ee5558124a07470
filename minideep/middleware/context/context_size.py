"""Count the tokens that a run has in context, as its messages are shown. Everything follows from the state."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ...context import ToolContext
from ...events import Noted
from ...messages import Message, ToolMessage, Usage, UserMessage
from ...ports import Backend, Request
from ...state import AnyState, FileEntry, behind
from . import tokens
from .spill import result_stub, with_short_arguments
from .view import View

DRIFT = 0.02
"""The error of a count, as a share of the tokens allowed, above which a correction is recorded."""
SUMMARIES = "summarization"
"""The owner of the notes with these keys:"""
OFFSET = "offset"
"""Tokens that the provider counts more than we do."""
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

    __slots__ = ("_head", "_system", "_tools", "counted", "last_counted", "notes", "offset", "overflow", "recounted",
        "shortened", "sizes", "stubs", "summarizing", "usage")  # fmt: skip

    def __init__(self, backend: Backend, before: "ContextSize | None" = None) -> None:
        super().__init__(backend, before)
        self._head = 0.0
        self._system: str | None = None
        self._tools: object = None
        self.recounted: bool = False
        """True if the messages were counted as they are, not as hooks before show them."""
        self.last_counted: float = 0.0
        """Our count of the last request; 0 if there was none."""
        self.usage: Usage = Usage()
        """The run's usage before the reply to the last request."""
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
        history = behind(state).messages
        if self.history is not history:
            self._restart(state)
        self.given: Sequence[Message] = request.messages
        self._add(state, request.messages[len(self.messages) : len(history)])

    def recount(self, state: AnyState) -> None:
        """Count all messages again, because they, or notes on how they are shown, have changed."""
        self._restart(state)
        self.recounted = True
        self._add(state, state.messages)

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
        return self.counted + self.offset

    def correct(self, ctx: ToolContext, most: float) -> None:
        """Record by how much the provider's count of the last request differs, if that matters for *most* tokens."""
        counted, self.last_counted = self.last_counted, 0.0
        reported = ctx.state.usage.input - self.usage.input
        # A reply that reports nothing, or a request that was never counted, says nothing about our error.
        if abs(reported - counted - self.offset) > DRIFT * most and counted and reported > 0:
            self.note(ctx, OFFSET, round(reported - counted))

    def note(self, ctx: ToolContext, key: str, value: Any) -> None:
        """Record *value*, or delete the note if it is empty. A turn that has ended takes no more notes."""
        if (value or None) != self.notes.get(key) and ctx.state.status == "running":
            ctx.record(Noted(SUMMARIES, key, value, "replace" if value else "delete"))
            self._read_notes(ctx.state.notes)

    def _read_notes(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        self.notes: dict[str, Any] = dict(notes.get(SUMMARIES, {}))
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
