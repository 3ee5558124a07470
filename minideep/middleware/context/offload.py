"""Large results and large messages: they go into a file, and the model is told where, and how they begin and end."""

from msgspec import structs

from ...checks import checked
from ...context import ToolContext
from ...kinds import Positive
from ...messages import ToolCall, ToolResult, UserMessage
from ...ports import Backend, Middleware, Request
from . import tokens
from .spill import keep, result_place
from .stubs import result_stub, shown_user, user_path
from .view import Shown

READERS = frozenset({"ls", "glob", "grep", "read_file", "edit_file", "write_file", "delete"})
"""They cap what they answer themselves; were it put into a file, reading that would do so again."""


class OffloadMiddleware(Middleware):
    """Keeps what is large out of the context.

    The text of a result of more than *result_tokens* is written to `large_tool_results/` below the home of *backend*,
    under the id of its call; what is no text, such as images, stays where it is. The text of a user's message of more
    than *message_tokens* is written to `conversation_history/`: the thread keeps the message, the model is shown less.
    What cannot be written is shown as it is. Stands beside `FilesystemMiddleware` over the same backend.
    """

    inherit = False  # Every agent of the usual list has its own.

    @checked
    def __init__(
        self, backend: Backend, *, result_tokens: Positive = 20_000, message_tokens: Positive = 50_000
    ) -> None:
        self._backend = backend
        self._result_tokens = result_tokens
        self._message_tokens = message_tokens
        self._never = int(result_tokens / tokens.MOST)
        self.prompt = (
            f"A result of more than {result_tokens:,} tokens is put into a file, which you are told: look into it in "
            "parts, with `read_file` or `grep`."
        )

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        content = result.content
        if type(content) is str and len(content) <= self._never:
            return result
        if call.name in READERS or tokens.of_text(text := result.text) <= self._result_tokens:
            return result
        path = await keep(ctx, self._backend, result_place(ctx, self._backend, call.id), text)
        return structs.replace(result, content=result_stub(result, path)) if path else result

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        base, shown = ctx.state.messages, ctx.scratch.get(self)
        if shown is None or shown.base is not base:
            shown = ctx.scratch[self] = Shown(base)
        for message in shown.new_in(request):
            stub = await self._shown(ctx, message) if type(message) is UserMessage else message
            shown.messages.append(stub)
            if stub is not message:
                shown.changed = True
        return shown.put_into(request) if shown.changed else request

    async def _shown(self, ctx: ToolContext, message: UserMessage) -> UserMessage:
        """The message, or its stub once it is in a file."""
        stub = shown_user(message, ctx.state.files, self._backend)
        if stub is message and tokens.of_text(text := message.text) > self._message_tokens:
            await keep(ctx, self._backend, user_path(self._backend, text), text)
            stub = shown_user(message, ctx.state.files, self._backend)
        return stub
