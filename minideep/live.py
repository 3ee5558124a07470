"""The verbs of `Agent` for turns that outlive their callers, and for threads that any process may run."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic

from msgspec import Meta, structs

from .checkpoint import CheckedStore
from .checks import checked
from .errors import ConfigError
from .events import StreamEvent
from .messages import Input, Message
from .runtime import TurnConfig, Turns
from .state import Decision, InputKey, ThreadId
from .tools import R

if TYPE_CHECKING:  # Loaded when they are used.
    from .runtime import Handle, ThreadStatus

EventNumber = Annotated[int, Meta(ge=0)]


@checked
class LiveThreads(Generic[R]):
    """The part of `Agent` that starts turns and reaches those that run, here or in another process."""

    _turns: Turns

    async def start(
        self,
        input: Input,
        thread_id: ThreadId | None = None,
        *,
        key: InputKey | None = None,
        files: Mapping[str, str | bytes] | None = None,
        context: Any = None,
        wait: bool = False,
    ) -> "Handle[R]":
        """Begin one turn, as `run` does, and return once its input is saved. The turn outlives its caller.

        `await handle` gives the `Turn`, with status `running` and reason `interrupted` if `aclose` cut it short. If
        saving the input fails the turn runs all the same, as with `run`. With a *key* that was accepted before, that
        turn is returned or goes on, and `follow(thread_id, after=handle.number)` tells it from its beginning.

        Raises:
            ConfigError, ThreadBusy, ThreadConflict, CheckpointError: as `run`; nothing was done.
        """
        from .runtime import start

        config = self._config(context, wait, detached=True)
        return await start(
            lambda begun: self._turns.run(structs.replace(config, begun=begun), input, thread_id, key, files),
            self._turns.tasks,
        )

    async def start_resume(
        self,
        thread_id: ThreadId,
        decisions: Mapping[str, Decision] | None = None,
        *,
        context: Any = None,
        wait: bool = False,
    ) -> "Handle[R]":
        """Resume a turn, as `resume` does, and return once that is saved. The turn outlives its caller.

        Raises:
            UnknownThread, ConfigError, ThreadBusy, ThreadConflict, CheckpointError: as `resume`; nothing was done.
        """
        from .runtime import start

        config = self._config(context, wait, detached=True)
        return await start(
            lambda begun: self._turns.resume(structs.replace(config, begun=begun), thread_id, decisions or {}),
            self._turns.tasks,
        )

    def follow(
        self, thread_id: ThreadId, *, after: EventNumber | str = 0, wait: bool = False
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of a thread after number *after*, or after the event with that `id`: the recorded ones
        exactly once and in order, and live ones and pieces of text as they come, whichever process runs the thread.

        A text under way comes again whole behind a `Restarted`. A `Rewound` says that what was shown after its number
        did not last, because a process died; its events may come in another form. Ends when nobody runs the thread; if
        *wait* is True, stays and goes on with its next turn. Following changes nothing, and a slow follower slows
        nobody. If you may break out early, use `contextlib.aclosing`.

        Of another process's turn, only recorded events come, as they are saved, if the store has no `exchange`. A turn
        begun with `run` streams text only from the first request on that it makes while it is followed. Where the agent
        that runs the turn has a `redact`, events come as they are saved, and no pieces of text.

        Raises:
            UnknownThread: there is no such thread, and *wait* is False.
            ConfigError: *after* is not the id of an event.
            HistoryCut: retention removed events after *after*.
            CheckpointError: the thread cannot be read.
        """
        from .runtime import follow, position

        try:
            position(after)
        except ValueError:
            raise ConfigError(
                f"after={after!r} is not the number or the id of an event, such as 17 or '17.2'"
            ) from None
        return follow(self._store, thread_id, after, wait)

    async def cancel(self, thread_id: ThreadId, reason: str = "") -> bool:
        """Cancel the turn of a thread, whichever process runs it, and return once that is saved: False if nobody runs
        it, or if it ended first. Whoever awaits the turn gets a `Turn` with status `cancelled`; *reason* is in
        `State.detail`.
        """
        from .runtime import cancel_turn

        return await cancel_turn(self._store, thread_id, reason)

    async def say(self, thread_id: ThreadId, text: str) -> bool:
        """Say something to a running turn, whichever process runs it, without a new turn or new limits.

        The text is recorded as a user's message before the main agent's next request to its model, or instead of the
        end of the turn; then True is returned. Returns False if nobody runs the thread, or if the turn ends or pauses
        first; then nothing is recorded. Do not await it in a tool of the same turn.

        Raises:
            ConfigError: *text* is empty, or longer than 250,000 characters.
        """
        from .runtime import say_to_turn

        return await say_to_turn(self._store, thread_id, text)

    async def update_state(
        self,
        thread_id: ThreadId,
        *,
        messages: Iterable[Message] | None = None,
        files: Mapping[str, str | bytes | None] | None = None,
    ) -> None:
        """Change a thread between two turns: its *messages* in context, and *files*, of which None deletes one.

        *messages* is the whole new list: `[*state.messages[:-1], AssistantMessage("better")]`. What differs is recorded
        as an event, so the past stays readable: `transcript` has what was there before as well. While calls wait for a
        person, the reply that made them stays the last message.

        Raises:
            UnknownThread, ThreadBusy, ThreadConflict, CheckpointError: nothing was changed.
            ConfigError: the turn was cut short, a call would lose its result, or a file is refused: nothing was
                changed.
        """
        from .runtime import update

        await self._turns.update(self._config(None, False), thread_id, partial(update, messages, files))

    async def status(self, thread_id: ThreadId) -> "ThreadStatus":
        """Return how a thread is and where it runs, in two look-ups, however long it is; it takes nothing.

        Raises:
            UnknownThread, CheckpointError
        """
        from .runtime import status_of

        return await status_of(self._store, thread_id)

    async def aclose(self, grace: float = 0.0) -> None:
        """Cut short the turns that this agent runs in this process, after *grace* seconds in which they may end.

        They are saved and not cancelled: their status is `interrupted`, and `resume` continues them, in any process.
        """
        await self._turns.aclose(grace)

    # ---- of `Agent`

    def _config(self, context: Any, wait: bool, begun: Any = None, *, detached: bool = False) -> TurnConfig: ...

    @property
    def _store(self) -> CheckedStore: ...
