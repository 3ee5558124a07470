"""What a run has in context: as it is shown, and in tokens; all of it follows from the state, a step at a time."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from ...context import ToolContext
from ...events import Noted
from ...messages import Message, ToolMessage, Usage, UserMessage
from ...ports import Backend, Request
from ...state import State
from . import tokens
from .stubs import result_stub, shortened, shown_user
from .view import Shown

DRIFT = 0.02
"""How wrong a count may be, of what is allowed, before a correction is noted."""
OWNER = "summarization"
"""Whose notes these are:"""
OFFSET = "offset"
"""Tokens that the provider counts more than we do."""
SHORTENED = "shortened"
"""The index of the message before which the arguments of calls are shortened."""
STUBS = "stubs"
"""The files of results that are shown as stubs, by the id of the call; no name, if it could not be written."""
OVERFLOW = "overflow"
"""How many tokens a request had that was too large, by the name of the model."""


class Measured(Shown):
    """Counts each message once. Corrected by what the provider reported of the last request, as far as that is noted:
    a correction that is not noted would be forgotten by a restart, and what is shown would be another.
    """

    __slots__ = (
        "_backend",
        "_head",
        "_system",
        "_tools",
        "asked",
        "busy",
        "counted",
        "notes",
        "offset",
        "sizes",
        "usage",
    )

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._head = 0.0
        self._system: str | None = None
        self._tools: object = None
        self.asked = 0.0
        """How many tokens we counted of the last request; 0: there was none."""
        self.usage = Usage()
        """The run's usage before its reply."""
        self.busy = False
        """Whether a summary is being made."""
        self.counted = 0.0
        """Tokens of the next request as we count."""
        self.begin([])
        self._read(State())

    def look(self, state: State, request: Request) -> None:
        """Take in what was said since, as *request* shows it; all of it, after a compaction."""
        if request.system is not self._system or request.tools is not self._tools:
            self._system, self._tools = request.system, request.tools
            self._head, before = tokens.of_head(request), self._head
            self.counted += self._head - before
        if self.base is not state.messages:
            self._begin(state)
        self._take(state, self.new_in(request))

    def look_again(self, state: State) -> None:
        """Look at all messages, because they, or notes of how they are shown, have changed."""
        self._begin(state)
        self._take(state, state.messages)

    def _begin(self, state: State) -> None:
        self.begin(state.messages)
        self._read(state)
        self.sizes: list[float] = []
        self.counted = self._head

    def _take(self, state: State, new: Sequence[Message]) -> None:
        messages, sizes, counted, plain = self.messages, self.sizes, self.counted, not self.notes
        for message in new:
            shown = message
            if not plain or type(message) is UserMessage:
                shown = self._shown(state, message, len(sizes))
                self.changed = self.changed or shown is not message
            size = tokens.of_message(shown)
            messages.append(shown)
            sizes.append(size)
            counted += size
        self.counted = counted

    @property
    def tokens(self) -> float:
        """Tokens of the next request as the provider will count, as far as is known."""
        return self.counted + self.offset

    def correct(self, ctx: ToolContext, most: float) -> None:
        """Note by how much the provider has counted the last request otherwise, if that matters where *most* tokens
        are allowed.
        """
        counted, self.asked = self.asked, 0.0
        reported = ctx.state.usage.input - self.usage.input
        if abs(reported - counted - self.offset) > DRIFT * most and counted and reported > 0:
            self.note(ctx, OFFSET, round(reported - counted))

    def note(self, ctx: ToolContext, key: str, value: Any) -> None:
        """Remember *value*, or, if it is nothing, that there is none; but not in a turn that has ended."""
        if (value or None) != self.notes.get(key) and ctx.state.status == "running":
            ctx.record(Noted(OWNER, key, value, "replace" if value else "delete"))
            self._read(ctx.state)

    def _read(self, state: State) -> None:
        self.notes: dict[str, Any] = state.notes.get(OWNER, {})
        self.offset: int = self.notes.get(OFFSET, 0)

    @property
    def shortened(self) -> int:
        return self.notes.get(SHORTENED, 0)

    @property
    def stubs(self) -> dict[str, str]:
        return self.notes.get(STUBS, {})

    @property
    def overflow(self) -> dict[str, int]:
        return self.notes.get(OVERFLOW, {})

    def _shown(self, state: State, message: Message, index: int) -> Message:
        if isinstance(message, UserMessage):
            return shown_user(message, state.files, self._backend)
        if isinstance(message, ToolMessage):
            path = self.stubs.get(message.call_id)
            return structs.replace(message, content=result_stub(message, path)) if path is not None else message
        return shortened(message) if index < self.shortened else message
