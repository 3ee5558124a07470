"""Clearing: old results of tools are no longer shown, by rule, before anything is summarized."""

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import structs

from ...checks import checked
from ...context import ToolContext
from ...kinds import Positive
from ...messages import Message, Messages, ToolMessage
from ...ports import Middleware, Request
from ...state import behind
from ..known import Known
from . import tokens

CLEARED = "[cleared to save room; call the tool again if you need it]"
LEAST = 0.1
"""The share of *above* that clearing must save. It changes the beginning of the request, so that nothing of it is read
from the provider's cache; little by little that would happen at every step."""
SMALL = 100.0
"""Tokens of a result that is not worth clearing."""


class ClearToolResults(Middleware):
    """Shows old results of tools as one line, whenever the messages of a run have more than *above* tokens:
    `ClearToolResults(above=60_000, keep=5, exclude=["read_file"])`.

    The last *keep* results stay, and so do those that the model has not read yet, those of the tools in *exclude*, and
    small ones. All others are cleared at once, so that requests keep the same beginning for as long as possible. The
    thread keeps them, and so do a summary, `Turn.messages` and `Agent.transcript`. What is shown follows from the
    messages alone, so a restart shows the same.

    `create_deep_agent` puts it before its compaction, which then counts what is left; put it there in a list of your
    own. It holds in every run below the agent too.

    Raises:
        ConfigError: an argument is wrong.
    """

    inherit: bool | None = True
    before_compaction = True

    @checked
    def __init__(self, above: Positive = 100_000, keep: Positive = 3, exclude: Iterable[str] = ()) -> None:
        self._known = Known(partial(_Shown, above, keep, frozenset(exclude)))

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return self._known.of(ctx).put_into(request, behind(ctx.state).messages)


class _Shown:
    """The messages of one run as they are shown. Each is looked at once, however many steps and turns follow."""

    def __init__(self, above: int, keep: int, exclude: frozenset[str], before: "_Shown | None" = None) -> None:
        self._above, self._keep, self._exclude = above, keep, exclude
        self._restart(())
        if before is not None:
            self._history, self._given, self._any = before._history, before._given, before._any
            self._messages, self._results = before._messages.copy(), before._results.copy()
            self._total, self._replied = before._total, before._replied

    def _restart(self, history: Sequence[Message]) -> None:
        self._history = history
        self._given: Sequence[Message] = ()
        self._messages: list[Message] = []
        self._results: list[tuple[int, float]] = []
        """The places of the results that may still be cleared, and the tokens that this saves."""
        self._total = 0.0
        self._replied = 0
        """The place of the last reply: the model has read the results before it."""
        self._any = False

    def put_into(self, request: Request, history: Sequence[Message]) -> Request:
        given = request.messages
        if self._history is not history or not self._goes_on(given):
            self._restart(history)
        self._given = given
        for message in given[len(self._messages) : len(history)]:
            # As it was when the model was asked for this reply: what is shown must not depend on when somebody looks.
            if message.role == "assistant":
                self._clear()
                self._replied = len(self._messages)
            self._add(message)
        self._clear()
        if not self._any:
            return request
        added = given[len(history) :]
        return structs.replace(request, messages=[*self._messages, *added] if added else Messages(self._messages))

    def _goes_on(self, given: Sequence[Message]) -> bool:
        """Return whether *given* begins with the messages of the last request."""
        before, end = self._given, len(self._messages)
        return (type(before) is Messages and before.same_list(given)) or given[:end] == before[:end]

    def _add(self, message: Message) -> None:
        size = tokens.of_message(message)
        self._total += size
        if isinstance(message, ToolMessage) and message.name not in self._exclude:
            self._results.append((len(self._messages), size - SMALL))
        self._messages.append(message)

    def _clear(self) -> None:
        if self._total <= self._above:
            return
        old = [result for result in self._results[: -self._keep] if result[0] < self._replied]
        worth = [(place, saved) for place, saved in old if saved > 0]
        if (saved := sum(saved for _, saved in worth)) < LEAST * self._above:
            return
        # Another list: those that have looked at the old one see that it has changed.
        self._messages, self._any = self._messages.copy(), True
        for place, _ in worth:
            self._messages[place] = structs.replace(self._messages[place], content=CLEARED)
        self._results = self._results[len(old) :]
        self._total -= saved
