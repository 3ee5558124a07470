"""Offloading: large results and large messages go into files, and the model is shown where they are."""

from functools import partial

from msgspec import structs

from ...checks import checked
from ...context import ToolContext
from ...kinds import Positive
from ...messages import Messages, ToolCall, ToolResult, UserMessage, list_behind
from ...ports import Backend, Middleware, Request
from ...state import behind
from ..known import Known
from . import spill, tokens
from .view import View

READERS = frozenset({"ls", "glob", "grep", "read_file", "edit_file", "write_file", "delete"})
"""Tools that limit their own results. Their results are never offloaded: reading the offloaded file would produce
another large result, without end.
"""


class OffloadMiddleware(Middleware):
    """Keeps large texts out of the context.

    The text of a result of more than *result_tokens* is written to `large_tool_results/` below the home of *backend*,
    under the id of its call. The text of a user's message of more than *message_tokens* is written to
    `conversation_history/`; the thread keeps the whole message, the model is shown a stub. Media stay.
    A text that cannot be written is shown as it is. Use `FilesystemMiddleware` over the same backend to read the files.
    """

    inherit: bool | None = False  # Every agent of `create_deep_agent` has its own.

    @checked
    def __init__(
        self, backend: Backend, *, result_tokens: Positive = 20_000, message_tokens: Positive = 50_000
    ) -> None:
        self._backend = backend
        self._known = Known(partial(View, backend))
        self._result_tokens = result_tokens
        self._message_tokens = message_tokens
        self._always_fits = int(result_tokens / tokens.MAX_PER_CHARACTER)
        self.prompt: str = (
            f"A result of more than {result_tokens:,} tokens is put into a file, and you see its path, size and ends "
            "instead. What you need may stand between them: find it with `grep`, or read that part with `read_file`, "
            "before you conclude anything."
        )

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        content = result.content
        if type(content) is str and len(content) <= self._always_fits:  # Most results: no need to count tokens.
            return result
        if call.name in READERS or tokens.of_text(text := result.text) <= self._result_tokens:
            return result
        path = await spill.to_file(ctx, self._backend, spill.result_path(ctx, self._backend, call.id), text)
        return structs.replace(result, content=spill.result_stub(result, path)) if path else result

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        history, view = behind(ctx.state).messages, ctx.scratch.get(self._known) or self._begun(ctx, request)
        given = request.messages
        source = list_behind(given) if type(given) is Messages else view.source
        # Nothing is known of the run, or it was compacted, or results were cleared.
        if view.history is not history or view.source is not source:
            view.restart(history)
        view.given, view.source = given, source
        for message in given[len(view.messages) : len(history)]:
            shown = await self._shown(ctx, view, message) if type(message) is UserMessage else message
            view.messages.append(shown)
            view.changed = view.changed or shown is not message
        return view.put_into(request) if view.changed else request

    def _begun(self, ctx: ToolContext, request: Request) -> View:
        """Return the view of the run at the first request of a turn."""
        view = self._known.of(ctx)
        if not view.still_right(request.messages, ctx.state.files):
            view.restart(())
        return view

    async def _shown(self, ctx: ToolContext, view: View, message: UserMessage) -> UserMessage:
        """Return *message*, or its stub after its text was written to a file."""
        shown = view.shown_message(message, ctx.state.files)
        if shown is message and tokens.of_text(text := message.text) > self._message_tokens:
            await spill.to_file(ctx, self._backend, spill.message_path(self._backend, text), text)
            shown = view.shown_message(message, ctx.state.files)
        return shown
