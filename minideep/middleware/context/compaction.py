"""Summarization: before a conversation outgrows its model, a summary takes the place of its beginning."""

import itertools
import logging
from collections.abc import Sequence
from functools import partial
from math import isinf
from mimetypes import guess_extension

from msgspec import Struct, structs

from ...backends.paths import CONVERSATION, RESULTS
from ...checks import checked
from ...context import ToolContext
from ...errors import ContextOverflow, ModelError, ToolError
from ...events import Compacted
from ...kinds import Positive
from ...messages import AnyBlock, AssistantMessage, Document, Image, Message, ToolMessage, UserMessage
from ...models import resolve
from ...ports import Ask, Backend, Middleware, Model, Reply, Request, Runnable
from ...state import State
from ...tools import Tool
from . import spill as keeping, summarizer as summaries, tokens
from .context_size import OFFSET, OVERFLOW, SHORTENED, STUBS, Measured
from .stubs import LEAST, fitted, result_stub, shortened, shown_user, user_path
from .summarizer import Summary, ask, frame
from .transcript_text import extract, in_full

logger = logging.getLogger("minideep")
TRIGGER, SHARE = 170_000, 0.85
"""Tokens, and a share of the model's window: over the smaller of both a conversation is compacted."""
TARGET = 0.6
"""Of the trigger: what is left in context, if there is enough that can go."""
EMERGENCY = 0.25
"""Of a request that was too large: what is left of it. There is one more try, and nobody knows by how much it was."""
WORTH = 0.1
"""Of the trigger: what a summary must replace. One that saves less would be due again with every step."""
SMALLEST = 100
"""Tokens that a summary must replace where somebody asks for it, or a request was too large."""
LEARNT = 4_000
"""Tokens; no model's window is smaller, whatever made it refuse a request."""
DESCRIPTION = """\
Put a summary in the place of older messages when their details no longer matter; they stay readable in a file."""
ROOM = 10
"""Tokens; a summary that has less is none."""
EXTRACT = "(There is no summary of the following, because the summarizer failed; this was picked out by rules.)"


class Meter(Struct, frozen=True):
    """How full a context is."""

    tokens: int
    """About as many as the next request will have."""
    trigger: int | None
    """Over how many it is compacted; None: never."""
    window: float | None
    """Tokens that the model can read; None: nobody knows."""
    offloaded: tuple[str, ...]
    """The files that large results, large messages and earlier parts of the conversation were put into."""


class SummarizationMiddleware(Middleware):
    """Keeps what is in context below what *model*, the agent's, can read.

    Over *trigger* tokens (170,000, or 0.85 of `model.window` if that is known and less; never, if it is infinite) long
    arguments of old calls are cut; if that is not enough, all but the last *keep* messages (more, where a call would
    lose its result) are written to `conversation_history/` below the home of *backend*, and *summarizer* (*model*, if
    None) says what stands for them; and if the last messages are too large by themselves, their largest results are
    put into files. What was said stays in `Turn.messages` and `Agent.transcript`. What the summarizer takes counts as
    the run's own tokens, money and time. If it fails, rules pick out what they can.

    A request that was too large all the same is made smaller and asked once more, if the agent's model is a
    `Recovering` one. Stands beside `FilesystemMiddleware` over the same backend.

    Raises:
        ConfigError: *keep* or *trigger* is not above 0.
    """

    @checked
    def __init__(
        self,
        model: str | Model,
        backend: Backend,
        *,
        summarizer: str | Model | None = None,
        trigger: Positive | None = None,
        keep: Positive = 6,
    ) -> None:
        self._model = resolve(model)
        self._summarizer = resolve(summarizer) if summarizer else self._model
        self.models = (self._summarizer,)
        self._backend = backend
        self._trigger = trigger if trigger is not None else _trigger(self._model)
        self._keep = keep
        self.tools = (Tool(self.compact_conversation, description=DESCRIPTION),)

    # ---- hooks, and the tool

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        state = ctx.state
        measured = ctx.scratch.get(self) or self._measured(ctx)
        measured.look(state, request)
        trigger = self._trigger if OVERFLOW not in measured.notes else self._trigger_of(measured)
        if state.usage is not measured.usage:
            measured.correct(ctx, trigger or TRIGGER)
        if trigger is not None and measured.tokens > trigger and state.status == "running":
            added = request.messages[len(measured.sizes) :]
            await self._relieve(ctx, measured, trigger * TARGET, trigger * WORTH)
            request = structs.replace(request, messages=[*measured.messages, *added])
        elif measured.changed:
            request = measured.put_into(request)
        measured.asked, measured.usage = measured.counted, state.usage
        return request

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        try:
            return await ask(request)
        except ContextOverflow:
            smaller = await self._shrink(ctx, self._measured(ctx), request.messages)
            if smaller is request.messages:
                raise
        return await ask(structs.replace(request, messages=smaller))

    async def before_finish(self, ctx: ToolContext) -> None:
        measured = self._measured(ctx)
        measured.correct(ctx, self._trigger_of(measured) or TRIGGER)

    async def compact_conversation(self, ctx: ToolContext) -> str:
        measured = self._measured(ctx)
        measured.correct(ctx, self._trigger_of(measured) or TRIGGER)
        if measured.base is not ctx.state.messages:
            measured.look_again(ctx.state)
        before = measured.tokens
        if not await self._summarize(ctx, measured, SMALLEST):
            raise ToolError("there is too little before the last messages to be worth a summary; go on with your work")
        return f"done: of about {before:,.0f} tokens {measured.tokens:,.0f} are left in context"

    @checked
    def meter(self, agent: Runnable, state: State) -> Meter:
        """How full the context of *state*, a run of *agent*, is."""
        measured = Measured(self._backend)
        measured.look(state, Request(agent.spec.system, state.messages, agent.spec.tool_list))
        folders = [keeping.place(self._backend, name, "") for name in (RESULTS, CONVERSATION)]
        offloaded = tuple(file for file in sorted(state.files) if file.startswith(tuple(folders)))
        trigger, window = self._trigger_of(measured), getattr(self._model, "window", None)
        return Meter(round(measured.tokens), trigger if trigger is None else round(trigger), window, offloaded)

    # ---- how much there is

    def _measured(self, ctx: ToolContext) -> Measured:
        """What is known of this run's context; after a pause or a restart it is found out anew."""
        found = ctx.scratch.get(self)
        if found is None:
            found = ctx.scratch[self] = Measured(self._backend)
        return found

    def _trigger_of(self, measured: Measured) -> float | None:
        """Over how many tokens to compact: as *model* says, or less, if a request was too large for it before."""
        learnt = measured.overflow.get(self._model.name)
        return self._trigger if learnt is None else min(learnt * SHARE, self._trigger or learnt)

    # ---- making it less

    async def _shrink(self, ctx: ToolContext, measured: Measured, messages: Sequence[Message]) -> Sequence[Message]:
        """What to show instead of *messages*, which were too many; and remember that they were."""
        before, added = measured.tokens, messages[len(measured.sizes) :]
        if before > LEARNT:
            least = min(round(before), measured.overflow.get(self._model.name, round(before)))
            measured.note(ctx, OVERFLOW, {**measured.overflow, self._model.name: least})
        await self._relieve(ctx, measured, before * EMERGENCY, SMALLEST, last=True)
        if measured.tokens >= before:
            return messages
        measured.asked, measured.usage = measured.counted, ctx.state.usage
        return [*measured.messages, *added]

    async def _relieve(
        self, ctx: ToolContext, measured: Measured, target: float, least: float, last: bool = False
    ) -> None:
        """Bring the context down to *target* tokens, as far as can be: old arguments, a summary, the last results.

        If this is the *last* way to go on, also results that cannot be kept are no longer shown.
        """
        if self._shorten(ctx, measured, cut(measured.base, self._keep), target):
            return
        await self._summarize(ctx, measured, least)
        if measured.tokens > target:
            await self._stow(ctx, measured, target, last)

    def _shorten(self, ctx: ToolContext, measured: Measured, end: int, target: float) -> bool:
        """Cut the arguments of the calls before message *end*, if that leaves at most *target* tokens."""
        begin = measured.shortened
        sizes, messages = measured.sizes[begin:end], measured.messages[begin:end]
        saved = sum(sizes) - sum(tokens.of_message(shortened(message)) for message in messages)
        if saved <= 0 or measured.tokens - saved > target:
            return False
        measured.note(ctx, SHORTENED, end)
        measured.look_again(ctx.state)
        return True

    async def _summarize(self, ctx: ToolContext, measured: Measured, least: float) -> bool:
        """Put a summary in the place of all but the last messages, if they have *least* tokens; whether it is done."""
        base, state = measured.base, ctx.state
        end = cut(base, self._keep)
        earlier = summaries.text_of(base[0])
        old, replaced = base[int(earlier is not None) : end], sum(measured.sizes[:end])
        wanted = "" if state.said is None or state.said in base[end:] else state.said.text
        framed = partial(frame, replaced, wanted, tuple(state.todos))
        path = self._path(ctx)
        room = framed(path).room
        if measured.busy or not old or replaced < least or room < ROOM:
            return False
        measured.busy = True
        try:
            summary = await self._summary(ctx, earlier or "", old, room)
            path = await keeping.keep(ctx, self._backend, path, in_full(old, await self._media(ctx, old)))
            self._compact(ctx, measured, end, summary, framed(path).of(summary.text))
        finally:
            measured.busy = False
        return True

    async def _summary(self, ctx: ToolContext, earlier: str, old: Sequence[Message], room: float) -> Summary:
        """What the summarizer makes of *earlier*, a summary, and *old*; if it fails, what rules can."""
        summary = Summary(earlier)
        try:
            if limit := ctx.spent.reached(ctx.state.limits):
                missing = ctx.spent.missing(limit)
                raise ModelError(f"the budget of {limit} is spent{f' ({missing})' if missing else ''}")
            await ask(self._summarizer, old, summary)
        except Exception as exc:  # noqa: BLE001  The door to a model: the conversation goes on without a summary.
            logger.warning("thread %s: no summary: %s", ctx.thread_id, exc)
            picked = extract(old, room / 2 - tokens.of_text(EXTRACT))
            summary.text = "\n\n".join(filter(None, (fitted(summary.text, room / 2), EXTRACT, picked)))
        return summary

    def _compact(self, ctx: ToolContext, measured: Measured, end: int, summary: Summary, message: UserMessage) -> None:
        """Record the summary, and what notes say of the messages that are left."""
        before, stubs = measured.counted, measured.stubs
        took = (summary.usage, summary.model, summary.seconds, summary.cost)
        ctx.record(Compacted(message, end, *took))
        left = {message.call_id for message in ctx.state.messages if isinstance(message, ToolMessage)}
        measured.note(ctx, SHORTENED, None)
        measured.note(ctx, STUBS, {call_id: path for call_id, path in stubs.items() if call_id in left})
        measured.look_again(ctx.state)
        measured.note(ctx, OFFSET, round(measured.offset * measured.counted / before))

    async def _stow(self, ctx: ToolContext, measured: Measured, target: float, last: bool) -> None:
        """Put what is large in the last messages into files, the largest first, down to *target* tokens."""
        base, sizes = measured.base, measured.sizes
        self._shorten(ctx, measured, max(_replies(base), default=0), float("inf"))
        stubs = dict(measured.stubs)
        left = measured.tokens
        for index in sorted(range(len(sizes)), key=lambda index: -measured.sizes[index]):
            if left <= target or measured.sizes[index] <= LEAST:
                break
            stub = await self._stowed(ctx, base[index], stubs, last)
            left -= measured.sizes[index] - tokens.of_message(stub) if stub else 0
        measured.note(ctx, STUBS, stubs)
        measured.look_again(ctx.state)

    async def _stowed(self, ctx: ToolContext, message: Message, stubs: dict[str, str], last: bool) -> Message | None:
        """What is shown of *message* once its text is in a file, which *stubs* is told; None if it stays as it is."""
        if isinstance(message, ToolMessage):
            place = keeping.result_place(ctx, self._backend, message.call_id)
            path = await keeping.keep(ctx, self._backend, place, message.text)
            if path or last:
                stubs[message.call_id] = path
                return structs.replace(message, content=result_stub(message, path))
        elif isinstance(message, UserMessage) and summaries.text_of(message) is None:
            text = message.text
            await keeping.keep(ctx, self._backend, user_path(self._backend, text), text)
            return shown_user(message, ctx.state.files, self._backend)
        return None

    async def _media(self, ctx: ToolContext, messages: Sequence[Message]) -> dict[AnyBlock, str]:
        """The files into which images and documents are put, which a history in words can only name."""
        found: dict[AnyBlock, str] = {}
        for block in itertools.chain.from_iterable(message.blocks for message in messages):
            if isinstance(block, Image | Document) and block not in found:
                name = f"{keeping.digest(block.data)}{guess_extension(block.media_type) or ''}"
                place = keeping.place(self._backend, CONVERSATION, name)
                found[block] = await keeping.keep(ctx, self._backend, place, block.data)
        return found

    def _path(self, ctx: ToolContext) -> str:
        """Where the next part of this run's conversation is put."""
        run = keeping.digest("/".join((ctx.thread_id, *ctx.path)))
        paths = (keeping.place(self._backend, CONVERSATION, f"{run}-{n}.md") for n in itertools.count(1))
        return next(path for path in paths if path not in ctx.state.files)


def cut(messages: Sequence[Message], keep: int) -> int:
    """Where the last *keep* messages begin, or before, so that no result stands without its call."""
    at = max(0, len(messages) - keep)
    while at and isinstance(messages[at], ToolMessage):
        at -= 1
    return at


def _replies(messages: Sequence[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if isinstance(message, AssistantMessage)]


def _trigger(model: Model) -> int | None:
    window: float | None = getattr(model, "window", None)
    if window is None:
        return TRIGGER
    return None if isinf(window) else min(TRIGGER, int(SHARE * window))
