"""Compaction: before a conversation outgrows its model's window, a summary replaces its beginning."""

import itertools
import logging
from collections.abc import Sequence
from functools import partial
from math import isinf

from msgspec import Struct, structs

from ...access import no_access
from ...backends import CONVERSATION, RESULTS
from ...checks import checked
from ...context import ToolContext
from ...errors import ConfigError, ContextOverflow, ModelError, ToolError
from ...events import Compacted
from ...kinds import Positive
from ...media import Media
from ...messages import AnyBlock, AssistantMessage, Message, ToolMessage, UserMessage
from ...models import resolve
from ...ports import Ask, Backend, Middleware, Model, Reply, Request
from ...spec import Runnable
from ...state import State, behind
from ...tools import Tool
from ..aside import Aside
from ..known import Known
from . import spill, tokens
from .context_size import OFFSET, OVERFLOW, SHORTENED, STUBS, ContextSize
from .summarizer import Frame, Summary, frame_of, summarize, summary_in
from .tokens import fitted
from .transcript_text import extract, in_full

logger: logging.Logger = logging.getLogger("minideep")
TRIGGER, WINDOW_SHARE = 170_000, 0.85
"""Tokens, and a share of the model's window. A conversation is compacted above the smaller of the two."""
TARGET = 0.6
"""The share of the trigger that stays in context, if enough can go."""
EMERGENCY_TARGET = 0.25
"""The share of a refused request that stays. There is only one more try, and nobody knows how far over it was."""
MIN_SAVING = 0.1
"""The share of the trigger that a summary must replace. One that saves less would be due again with every step."""
MIN_REPLACED = 100
"""Tokens that a summary must replace if it was asked for, or if a request was refused as too large."""
MIN_WINDOW = 4_000
"""Tokens. No model has a smaller window, so a smaller refused request teaches nothing about the window."""
MIN_ROOM = 10
"""Tokens; with less room for its text a summary is not worth making."""
DESCRIPTION = """\
Put a summary in the place of older messages. Use it between two pieces of work, when details of the first no longer \
matter; not while you need them. The messages stay readable in a file that the summary names. It happens by itself \
when the context is nearly full."""
EXTRACT = "(There is no summary of the following, because the summarizer failed; this was picked out by rules.)"


class Meter(Struct, frozen=True):
    """The fill level of a context."""

    tokens: int
    """The tokens of the next request, estimated or counted."""
    trigger: int | None
    """The context is compacted above this many tokens; None: never."""
    window: float | None
    """Tokens that the model can read; None if unknown."""
    offloaded: tuple[str, ...]
    """The files that hold large results, large messages and earlier parts of the conversation."""


class SummarizationMiddleware(Middleware):
    """Keeps the context smaller than the window of *model*, which must be the agent's model.

    Above *trigger* tokens it takes up to three steps. It cuts long arguments of old calls. If that is not enough, it
    writes all but the last *keep* messages (more, where a call would lose its result) to `conversation_history/` below
    the home of *backend*, and replaces them with a summary by *summarizer* (None: *model*). If the last messages alone
    are too large, it puts their largest texts into files. By default *trigger* is 170,000, or 0.85 of `model.window`
    if that is known and less; if the window is infinite, nothing is ever compacted.

    `Turn.messages` and `Agent.transcript` keep everything that was said. The summarizer's tokens, cost and time count
    as the run's own. If it fails, rules pick out what they can.

    If the model refuses a request as too large, the request is made smaller and sent once more. Use
    `FilesystemMiddleware` over the same backend to read the files.

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
        self.models: Sequence[Model] = (self._summarizer,)
        self._backend = backend
        self._trigger = trigger if trigger is not None else _default_trigger(self._model)
        self._keep = keep
        self.names_file: bool = True
        """False if the agent has no tool to read the file that a summary names."""
        self._known = Known(partial(ContextSize, backend))
        self.tools: Sequence[Tool] = (
            Tool(self.compact_conversation, description=DESCRIPTION, access=no_access, thread_only=True),
        )

    # ---- hooks, and the tool

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        state = ctx.state
        size: ContextSize = ctx.scratch.get(self._known) or self._begun(ctx, request)
        size.update(state, request)
        trigger = self._trigger if OVERFLOW not in size.notes else self._trigger_of(size)
        if size.reported:  # A reply has come since, with the provider's count of the last request.
            size.correct(ctx, trigger or TRIGGER)
        if trigger is not None and size.tokens > trigger and state.status == "running":
            added = request.messages[len(size.sizes) :]
            await self._reduce(ctx, size, trigger * TARGET, trigger * MIN_SAVING)
            request = structs.replace(request, messages=[*size.messages, *added])
        elif size.changed:
            request = size.put_into(request)
        size.last_counted, size.reported = size.counted, 0
        return request

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        if isinstance(request, Aside):
            return await ask(request)
        size: ContextSize = ctx.scratch.get(self._known) or self._known.of(ctx)
        try:
            reply = await ask(request)
        except ContextOverflow:
            smaller = await self._shrink(ctx, size, request.messages)
            if smaller is request.messages:  # Nothing could be made smaller.
                raise
            reply = await ask(structs.replace(request, messages=smaller))
        # Of this reply alone: the usage of the run may hold the tokens of others that hooks have asked in this step.
        size.reported = getattr(reply.usage, "input", 0)
        return reply

    async def before_finish(self, ctx: ToolContext) -> None:
        self._corrected(ctx)

    async def compact_conversation(self, ctx: ToolContext) -> str:
        size = self._corrected(ctx)
        if size.history is not behind(ctx.state).messages:
            size.recount(ctx.state)
        before = size.tokens
        if not await self._summarize(ctx, size, MIN_REPLACED):
            raise ToolError("there is too little before the last messages to be worth a summary; go on with your work")
        return f"done: of about {before:,.0f} tokens {size.tokens:,.0f} are left in context"

    @checked
    def meter(self, agent: Runnable, state: State) -> Meter:
        """Return how full the context of *state*, a run of *agent*, is."""
        size = ContextSize(self._backend)
        size.ask(agent.spec.model.name)
        size.update(state, Request(agent.spec.system, state.messages, agent.spec.tool_list))
        folders = tuple(spill.path_in(folder, self._backend) for folder in (RESULTS, CONVERSATION))
        offloaded = tuple(file for file in sorted(state.files) if file.startswith(folders))
        trigger, window = self._trigger_of(size), getattr(self._model, "window", None)
        return Meter(round(size.tokens), trigger if trigger is None else round(trigger), window, offloaded)

    @checked
    async def exact_meter(self, agent: Runnable, state: State) -> Meter:
        """Return what `meter` does, with the tokens that the provider counts, by one more request to it.

        Raises:
            ConfigError: the model has no `count_tokens`, which `Anthropic` and `OpenAI` have.
            ModelError: the provider could not count them.
        """
        count = getattr(self._model, "count_tokens", None)
        if count is None:
            raise ConfigError(f"{self._model!r} counts no tokens; use `meter`, which estimates them")
        counted = await count(Request(agent.spec.system, state.messages, agent.spec.tool_list))
        return structs.replace(self.meter(agent, state), tokens=counted)

    # ---- how much there is

    def _begun(self, ctx: ToolContext, request: Request) -> ContextSize:
        """Return the size of this run's context at the first request of a turn."""
        size = self._known.of(ctx)
        size.ask(ctx.model.name)
        if not size.still_right(request.messages, ctx.state.files):
            size.restart(())
        return size

    def _corrected(self, ctx: ToolContext) -> ContextSize:
        size = self._known.of(ctx)
        size.ask(ctx.model.name)
        size.correct(ctx, self._trigger_of(size) or TRIGGER)
        return size

    def _trigger_of(self, size: ContextSize) -> float | None:
        """Return the trigger: that of the model, or less if the model refused a smaller request before."""
        learnt = size.overflow.get(self._model.name)
        return self._trigger if learnt is None else min(learnt * WINDOW_SHARE, self._trigger or learnt)

    # ---- making it less

    async def _shrink(self, ctx: ToolContext, size: ContextSize, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what to show instead of *messages*, which were too many, and remember that they were."""
        before, added = size.tokens, messages[len(size.sizes) :]
        if before > MIN_WINDOW:
            least = min(round(before), size.overflow.get(self._model.name, round(before)))
            size.note(ctx, OVERFLOW, {**size.overflow, self._model.name: least})
        await self._reduce(ctx, size, before * EMERGENCY_TARGET, MIN_REPLACED, last=True)
        if size.tokens >= before:
            return messages
        size.last_counted = size.counted
        return [*size.messages, *added]

    async def _reduce(
        self, ctx: ToolContext, size: ContextSize, target: float, least: float, last: bool = False
    ) -> None:
        """Bring the context down to *target* tokens, as far as possible: old arguments, a summary, the last texts.

        A summary must replace *least* tokens. With *last*, no other way is left to go on: then even results that
        cannot be written to a file are no longer shown.
        """
        if self._shorten_arguments(ctx, size, first_kept(ctx.state.messages, self._keep), target):
            return
        await self._summarize(ctx, size, least)
        if size.tokens > target:
            await self._spill_largest(ctx, size, target, last)

    def _shorten_arguments(self, ctx: ToolContext, size: ContextSize, end: int, target: float) -> bool:
        """Shorten the arguments of the calls before message *end*, if that leaves at most *target* tokens."""
        begin = size.shortened
        saved = size.ratio * sum(
            counted - tokens.of_message(spill.with_short_arguments(message))
            for counted, message in zip(size.sizes[begin:end], size.messages[begin:end], strict=True)
        )
        if saved <= 0 or size.tokens - saved > target:
            return False
        size.note(ctx, SHORTENED, end)
        size.recount(ctx.state)
        return True

    async def _summarize(self, ctx: ToolContext, size: ContextSize, least: float) -> bool:
        """Replace all but the last messages with a summary, if they have *least* tokens. Return whether it was done."""
        state = ctx.state
        end = first_kept(state.messages, self._keep)
        earlier = summary_in(state.messages[0])
        old, kept = state.messages[int(earlier is not None) : end], state.messages[end:]
        replaced = sum(size.sizes[:end])
        framed = frame_of(state, kept, replaced, names_file=self.names_file)
        path = self._transcript_path(ctx)
        expected = framed(path)
        # The model may ask for two summaries in one reply: the second must not summarize what the first replaces.
        if size.summarizing or not old or replaced < least or expected.room < MIN_ROOM:
            return False
        size.summarizing = True
        try:
            summary = await self._summary(ctx, earlier or "", old, expected)
            path = await spill.to_file(ctx, self._backend, path, in_full(old, await self._media(ctx, old)))
            self._compact(ctx, size, end, summary, framed(path).around(summary.text))
        finally:
            size.summarizing = False
        return True

    async def _summary(self, ctx: ToolContext, earlier: str, old: Sequence[Message], expected: Frame) -> Summary:
        """Extend the summary *earlier* by *old*. If the summarizer fails, do what rules can."""
        summary = Summary(earlier)
        try:
            # The loop checks budgets before its own requests only, and a summary can be as large as one.
            if limit := ctx.spent.reached(ctx.state.limits):
                missing = ctx.spent.missing(limit)
                raise ModelError(f"the budget of {limit} is spent{f' ({missing})' if missing else ''}")
            await summarize(ctx.model_for(self._summarizer), old, summary, expected.asked)
        except ConfigError:  # A mistake of the program, such as a request where requests are forbidden.
            raise
        except Exception as exc:  # noqa: BLE001  Whatever a model raises, the conversation goes on without a summary.
            logger.warning("thread %s: no summary: %s", ctx.thread_id, exc)
            half = expected.room / 2
            picked = extract(old, half - tokens.of_text(EXTRACT))
            summary.text = "\n\n".join(filter(None, (fitted(summary.text, half), EXTRACT, picked)))
        return summary

    def _compact(self, ctx: ToolContext, size: ContextSize, end: int, summary: Summary, message: UserMessage) -> None:
        """Record the summary, and the notes on the messages that are left."""
        before, stubs = size.counted, size.stubs
        ctx.record(Compacted(message, end, summary.usage, summary.model, summary.seconds, summary.cost))
        left = {message.call_id for message in ctx.state.messages if isinstance(message, ToolMessage)}
        size.note(ctx, SHORTENED, None)
        size.note(ctx, STUBS, {call_id: path for call_id, path in stubs.items() if call_id in left})
        size.recount(ctx.state)
        # The provider's extra tokens belong to messages, most of which are gone.
        size.note(ctx, OFFSET, round(size.offset * size.counted / before))

    async def _spill_largest(self, ctx: ToolContext, size: ContextSize, target: float, last: bool) -> None:
        """Put the largest texts of the last messages into files, the largest first, down to *target* tokens."""
        messages = ctx.state.messages
        replies = [index for index, message in enumerate(messages) if isinstance(message, AssistantMessage)]
        self._shorten_arguments(ctx, size, max(replies, default=0), float("inf"))
        stubs = dict(size.stubs)  # The notes themselves must not change.
        left = size.tokens
        for index, counted in sorted(enumerate(size.sizes), key=lambda item: -item[1]):
            if left <= target or counted <= spill.MIN_STUBBED:
                break
            stub = await self._spilled(ctx, messages[index], stubs, last)
            left -= size.ratio * (counted - tokens.of_message(stub)) if stub else 0
        size.note(ctx, STUBS, stubs)
        size.recount(ctx.state)

    async def _spilled(self, ctx: ToolContext, message: Message, stubs: dict[str, str], last: bool) -> Message | None:
        """Write the text of *message* to a file; add a result's to *stubs*. Return the stub, or None."""
        if isinstance(message, ToolMessage):
            path = spill.result_path(ctx, self._backend, message.call_id)
            path = await spill.to_file(ctx, self._backend, path, message.text)
            if path or last:
                stubs[message.call_id] = path
                return structs.replace(message, content=spill.result_stub(message, path))
        elif isinstance(message, UserMessage) and summary_in(message) is None:
            path = spill.file_of_message(message, self._backend)
            if path and await spill.to_file(ctx, self._backend, path, message.text):
                return spill.message_stub(message, path)
        return None

    async def _media(self, ctx: ToolContext, messages: Sequence[Message]) -> dict[AnyBlock, str]:
        """Write media to files, because the transcript can only name them. Return the files."""
        from mimetypes import guess_extension  # Most conversations have no images.

        found: dict[AnyBlock, str] = {}
        for block in itertools.chain.from_iterable(message.blocks for message in messages):
            if isinstance(block, Media) and block not in found:
                name = f"{spill.digest(block.data)}{guess_extension(block.media_type) or ''}"
                found[block] = await spill.to_file(
                    ctx, self._backend, spill.path_in(CONVERSATION, self._backend, name), block.data
                )
        return found

    def _transcript_path(self, ctx: ToolContext) -> str:
        """Return the path for the next part of this run's conversation."""
        run = spill.digest("/".join((ctx.thread_id, *ctx.path)))
        paths = (spill.path_in(CONVERSATION, self._backend, f"{run}-{n}.md") for n in itertools.count(1))
        return next(path for path in paths if path not in ctx.state.files)


def first_kept(messages: Sequence[Message], keep: int) -> int:
    """Return the index of the first of the last *keep* messages, or an earlier one if a result would lose its call."""
    at = max(0, len(messages) - keep)
    while at and isinstance(messages[at], ToolMessage):
        at -= 1
    return at


def _default_trigger(model: Model) -> int | None:
    window: float | None = getattr(model, "window", None)
    if window is None:
        return TRIGGER
    return None if isinf(window) else min(TRIGGER, int(WINDOW_SHARE * window))
