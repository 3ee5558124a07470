"""The contract of every model, as tests."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from ..agent import Agent
from ..errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from ..events import ArgsDelta, Restarted, StreamEvent, TextDelta, ThinkingDelta
from ..messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from ..ports import Model, Reply, Request
from ..tools import tool
from .checks import same

T = TypeVar("T")
Said = Reply | ModelError | None
"""What the provider behind a model does: reply, fail with such an error, or (None) never answer."""
Answer = Callable[[str], Said]
"""Says what the provider does for a request, by the text of the request's last message."""
TEXTS = ["hi", "two\nlines\n", 'ünï😀 "quoted" \\ <tag>', "x" * 5_000]
ARGUMENTS: list[dict[str, Any]] = [
    {"city": "Paris"},
    {},
    {"deep": {"list": [1, 2.5, None, True, "é😀"], "text": 'a\nb"c\\'}},
]
ERRORS: list[type[ModelError]] = [RateLimited, Overloaded, AuthenticationFailed, ContextOverflow]
AT_ONCE = 8
"""Requests that are made at the same time."""


@tool
async def weather(city: str = "", deep: dict[str, Any] | None = None) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


class ModelContract:
    """The promises of every `Model`, in front of a provider that says what a test wants.

    `make` starts such a provider, usually a small HTTP server on loopback, and returns a model that asks it. The
    provider calls *answer* with the text of the last message of each request, on any OS thread, and puts what it
    returns in its own words: a `Reply` with text and calls (its usage, if the provider counts tokens), a `ModelError`
    as its own kind of error, and for None nothing at all until the client hangs up.
    """

    seconds: float = 30.0
    """The most that a test waits for the model. It then fails."""

    def make(self, answer: Answer, folder: Path) -> Model:
        """Return a model whose provider does what *answer* says. *folder* is empty and may be used."""
        raise NotImplementedError(f"{type(self).__name__}.make must return a model")

    async def aclose(self, model: Model) -> None:
        """Close the connections that *model* has on this event loop, if they are not closed with it."""

    def close(self, model: Model) -> None:
        """Stop what `make` has started."""

    def _run(self, folder: Path, answer: Answer, *tests: Callable[[Model], Coroutine[Any, Any, T]]) -> list[T]:
        """Return the results of *tests* on one model, each on an event loop of its own."""
        model = self.make(answer, folder)

        async def run(test: Callable[[Model], Coroutine[Any, Any, T]]) -> T:
            try:
                return await asyncio.wait_for(test(model), self.seconds)
            except TimeoutError:
                raise AssertionError(f"a model that answers: expected an end within {self.seconds:g} s") from None
            finally:
                await self.aclose(model)

        try:
            return [asyncio.run(run(test)) for test in tests]
        finally:
            self.close(model)

    # ---- replies

    def test_it_has_a_name_and_says_what_it_promises(self, tmp_path: Path) -> None:
        async def look(model: Model) -> None:
            window: Any = getattr(model, "window", None)
            same("the type of `name`", type(model.name), str)
            same("`name` is empty", model.name == "", False)
            same("`window` is None or above 0", window is None or window > 0, True)
            reply = await model.complete(_asking("hello"), None)
            if getattr(model, "states_cost", False):
                same("`states_cost` is True and `Reply.cost` is None", reply.cost is None, False)

        self._run(tmp_path, lambda text: _reply("hi"), look)

    def test_text_comes_back_as_it_was_said_whole_or_streamed(self, tmp_path: Path) -> None:
        async def ask(model: Model) -> None:
            for number, text in enumerate(TEXTS):
                whole = await model.complete(_asking(str(number)), None)
                same("the text of a reply", whole.message.text, text)
                same("the calls of a reply without any", whole.message.calls, ())
                same("why it stopped", whole.stop, "done")
                streamed, _ = await _streamed(model, _asking(str(number)))
                same("the text of a streamed reply", streamed.message.text, text)

        self._run(tmp_path, lambda text: _reply(TEXTS[int(text)]), ask)

    def test_the_deltas_of_a_stream_join_to_the_text_of_its_reply(self, tmp_path: Path) -> None:
        async def ask(model: Model) -> None:
            for number, text in enumerate(TEXTS):
                _, events = await _streamed(model, _asking(str(number)))
                strange = [event for event in events if not isinstance(event, StreamEvent)]  # pyright: ignore[reportUnnecessaryIsInstance]
                same("what was emitted besides events", strange, [])
                same("the deltas of a reply, joined", _joined(events), text)

        self._run(tmp_path, lambda text: _reply(TEXTS[int(text)]), ask)

    def test_calls_come_back_in_order_with_ids_of_their_own_and_their_arguments(self, tmp_path: Path) -> None:
        calls = [ToolCall("weather", args, f"call_{number}") for number, args in enumerate(ARGUMENTS)]

        async def ask(model: Model) -> None:
            for how in ("whole", "streamed"):
                request = _asking("go", tools=True)
                reply = await model.complete(request, None) if how == "whole" else (await _streamed(model, request))[0]
                found = reply.message.calls
                same(f"the calls of a {how} reply", [(one.name, one.args) for one in found], _named(calls))
                for one in found:
                    same(f"the JSON of a call of a {how} reply", json.loads(one.raw), one.args)
                ids = {one.id for one in found}
                same(f"the calls of a {how} reply have ids of their own", (len(ids), "" in ids), (len(calls), False))

        self._run(tmp_path, lambda text: _reply("Let me look.", *calls), ask)

    def test_the_tokens_of_a_reply_are_known_or_said_to_be_unknown(self, tmp_path: Path) -> None:
        async def ask(model: Model) -> None:
            for reply in (await model.complete(_asking("a"), None), (await _streamed(model, _asking("a")))[0]):
                same("the type of `Reply.usage`", type(reply.usage), Usage)
                usage = reply.usage
                if not usage.unknown:
                    same("the tokens of a reply: input and output", (usage.input, usage.output), (7, 3))
                if reply.cost is not None and not 0 <= reply.cost < 1e6:
                    raise AssertionError(f"the cost of a reply: expected US dollars, found {reply.cost!r}")

        self._run(tmp_path, lambda text: _reply("hi"), ask)

    # ---- requests

    def test_a_request_is_not_changed(self, tmp_path: Path) -> None:
        said = AssistantMessage((Text("Let me look."), ToolCall("weather", {"city": "Rome"}, "c1")))
        messages = [UserMessage("go"), said, ToolMessage("sunny", "c1", "weather"), UserMessage("and now?")]

        async def ask(model: Model) -> None:
            request = Request("You help.", messages, (weather,))
            before = deepcopy((request.system, messages, weather.schema))
            await model.complete(request, None)
            await _streamed(model, request)
            same("the request after it was answered", (request.system, messages, weather.schema), before)

        self._run(tmp_path, lambda text: _reply("sunny"), ask)

    def test_an_agent_runs_a_whole_turn_on_it(self, tmp_path: Path) -> None:
        asked: list[str] = []

        def answer(text: str) -> Reply:
            asked.append(text)
            if len(asked) > 1:
                return _reply("It is sunny.")
            return _reply("", ToolCall("weather", {"city": "Paris"}, "c1"))

        async def run(model: Model) -> None:
            turn = await Agent(model, [weather], "You help.").run("How is Paris?")
            same("how the turn went", (turn.status, turn.text, turn.error), ("ended", "It is sunny.", None))
            results = [message.text for message in turn.messages if isinstance(message, ToolMessage)]
            same("the results of its tools", results, ["sunny in Paris"])

        self._run(tmp_path, answer, run)

    # ---- errors

    def test_an_error_is_a_model_error_of_its_kind_and_the_next_request_is_answered(self, tmp_path: Path) -> None:
        def answer(text: str) -> Said:
            return ERRORS[int(text)](f"error {text}") if text.isdigit() else _reply("hi")

        async def ask(model: Model) -> None:
            for number, kind in enumerate(ERRORS):
                for emit in (None, list[StreamEvent]().append):
                    try:
                        reply = await model.complete(_asking(str(number)), emit)
                    except ModelError as exc:
                        same(f"the error for {kind.__name__} is one, not {exc!r}", isinstance(exc, kind), True)
                        same(f"{kind.__name__}.transient", exc.transient, kind.transient)
                        same("the error has no text", str(exc) == "", False)
                    else:
                        raise AssertionError(f"a provider that fails with {kind.__name__}: found {reply!r}")
                same("the reply after an error", (await model.complete(_asking("a"), None)).message.text, "hi")

        self._run(tmp_path, answer, ask)

    # ---- tasks and event loops

    def test_a_cancel_ends_a_request_at_once_and_the_model_still_answers(self, tmp_path: Path) -> None:
        arrived = asyncio.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        def answer(text: str) -> Said:
            if text != "wait":
                return _reply("hi")
            loops[0].call_soon_threadsafe(arrived.set)
            return None

        async def cancel(model: Model) -> None:
            loops.append(asyncio.get_running_loop())
            for emit in (None, list[StreamEvent]().append):
                arrived.clear()
                task = asyncio.create_task(model.complete(_asking("wait"), emit))
                waiting = asyncio.create_task(arrived.wait())
                await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                same("a request that is not answered is over", task.done(), False)
                task.cancel()
                await asyncio.wait([task], timeout=self.seconds / 3)
                same("a cancelled request is over and cancelled", (task.done(), task.cancelled()), (True, True))
                same("the reply after a cancel", (await model.complete(_asking("a"), emit)).message.text, "hi")

        self._run(tmp_path, answer, cancel)

    def test_requests_at_the_same_time_get_the_reply_and_the_deltas_of_their_own(self, tmp_path: Path) -> None:
        async def ask(model: Model) -> None:
            names = [f"number {number}" for number in range(AT_ONCE)]
            heard = await asyncio.gather(*(_streamed(model, _asking(name)) for name in names))
            same("the replies to requests at the same time", [reply.message.text for reply, _ in heard], names)
            same("the deltas of requests at the same time", [_joined(events) for _, events in heard], names)

        self._run(tmp_path, _reply, ask)

    def test_one_model_serves_one_event_loop_after_another(self, tmp_path: Path) -> None:
        async def ask(model: Model) -> str:
            await _streamed(model, _asking("a"))
            return (await model.complete(_asking("a"), None)).message.text

        same("the replies on two event loops", self._run(tmp_path, lambda text: _reply("hi"), ask, ask), ["hi", "hi"])


def _asking(text: str, *, tools: bool = False) -> Request:
    return Request("You help.", [UserMessage(text)], (weather,) if tools else ())


def _reply(text: str, *calls: ToolCall) -> Reply:
    parts = (*([Text(text)] if text else []), *calls)
    return Reply(AssistantMessage(parts), Usage(7, 3))


async def _streamed(model: Model, request: Request) -> tuple[Reply, list[StreamEvent]]:
    events: list[StreamEvent] = []
    return await model.complete(request, events.append), events


def _joined(events: list[StreamEvent]) -> str:
    """Return the text that a listener has at the end."""
    text = ""
    for event in events:
        if isinstance(event, Restarted):
            text = ""
        elif isinstance(event, TextDelta):
            text += event.text
        elif not isinstance(event, ThinkingDelta | ArgsDelta):
            raise AssertionError(f"a model emits deltas and `Restarted`, and nothing else; found {event!r}")
    return text


def _named(calls: list[ToolCall]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in calls]
