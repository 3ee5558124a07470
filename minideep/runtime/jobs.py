"""Jobs: threads that a tool of another thread begins beside it, in the same store, run by the same agent's block."""

from concurrent.futures import Future
from hashlib import sha256
from typing import Any

from msgspec import structs

from ..checkpoint import get_state
from ..context import DRIVEN, ToolContext
from ..costs import Costs
from ..errors import CheckpointError, ConfigError, ThreadBusy, ToolError, UnknownThread
from ..messages import UserMessage
from ..spec import Runnable
from ..turn import Turn, turn_of
from .delegation import count_child, spec_beside
from .following import cancel_turn, say_to_turn, status_of
from .handle import Begin, start
from .run import Run
from .turns import TurnConfig, Turns

LONGEST = 488
"""Characters of a thread's id that the ids of its jobs begin with: they are bounded as well, by 500."""
CLOSED = "no task can run beside this turn, as its program has not opened the agent (`async with agent:`)"


class Jobs:
    """The jobs of the turn that runs here, for a tool or a hook of its main run."""

    def __init__(self) -> None:
        self._run: Run = DRIVEN.get()
        self._turns: Any = self._run.live.owner
        self._store = self._run.journal.store

    def check_may_begin(self) -> None:
        """Check that a job may run.

        Raises:
            ToolError: the agent is not open, so nobody would end the job in good order; or a subagent asks.
        """
        if self._run.parent is not None:
            raise ToolError("only the main agent of a thread can run tasks beside its turn; do this work yourself")
        if not self._turns.blocks:
            raise ToolError(f"{CLOSED}; do this work in this turn, with the other tools that you have")

    def count(self, job: str) -> None:
        """Count a new job for this reply, as the run of a subagent is counted.

        Raises:
            ToolError: the `Limits` of the agent allow no more.
        """
        count_child(self._run, (job,))

    async def start(self, agent: Runnable, input: str, thread_id: str, key: str) -> None:
        """Begin a turn of a job, or go on with the one that this *key* began before a crash.

        Raises:
            ToolError: it could not begin.
        """
        # First, as a call whose reply is lost is made anew after a crash, under another key.
        if (failed := await self._run.save()) is not None:
            raise ToolError(f"not begun, as this thread could not be saved: {failed}")
        config = self._config(agent)
        await self._begin(
            thread_id, lambda begun: self._turns.run(structs.replace(config, begun=begun), input, thread_id, key)
        )

    async def resume(self, agent: Runnable, thread_id: str) -> None:
        """Go on with a job that was cut short, failed, cancelled, or stopped by a limit.

        Raises:
            ToolError: it could not go on.
        """
        config = self._config(agent)
        await self._begin(
            thread_id, lambda begun: self._turns.resume(structs.replace(config, begun=begun), thread_id, {})
        )

    async def status(self, thread_id: str) -> str | None:
        """Return the status of a thread as `Agent.status` has it; None if there is no such thread."""
        try:
            return (await status_of(self._store, thread_id)).status
        except UnknownThread:
            return None

    async def say(self, thread_id: str, text: str) -> bool:
        """`Agent.say`."""
        return await say_to_turn(self._store, thread_id, text)

    async def cancel(self, thread_id: str) -> bool:
        """`Agent.cancel`."""
        return await cancel_turn(self._store, thread_id, "cancelled by the agent that began it")

    async def last_turn(self, agent: Runnable, thread_id: str) -> Turn:
        """Return the last turn of a job as it is saved, or as it is now if it runs here."""
        state = await self._store.off_loop(lambda: get_state(self._store, thread_id))
        said, costs = state.messages[state.began :], state.costs or Costs()
        return turn_of(thread_id, state, said, {}, costs, output=agent.spec.output)

    def tell(self, text: str) -> UserMessage:
        """Say something to this turn, as `Agent.say` does, and record it at once."""
        message = self.tell_later(text)
        self._run.live.hear(self._run.record)
        return message

    def tell_later(self, text: str) -> UserMessage:
        """Say something to this turn instead of its end."""
        message = UserMessage(text)
        self._run.live.inbox.append((message, Future()))
        return message

    def _config(self, agent: Runnable) -> TurnConfig:
        run, redaction = self._run, self._run.journal.redaction
        about: dict[str, Any] = {"redact": redaction and redaction.redact, "context": run.context, "detached": True}
        about["unattended"] = run.live.unattended
        return TurnConfig(spec_beside(agent, run.spec), self._store, run.durability, **about)

    async def _begin(self, thread_id: str, begin: Begin[Any]) -> None:
        self.check_may_begin()
        turns: Turns = self._turns
        try:
            await start(begin, turns.tasks)
        except (CheckpointError, ConfigError) as exc:
            # If it runs already, this call has begun it, or a person has gone on with it.
            if not isinstance(exc, ThreadBusy) or await self.status(thread_id) != "running":
                raise ToolError(f"not begun: {exc}") from None


def job_id(ctx: ToolContext) -> str:
    """Return the id of the job that a call begins: the same each time the call runs, and no other call's."""
    return sha256(ctx.idempotency_key.encode(errors="surrogatepass")).hexdigest()[:8]


def thread_of_job(thread_id: str, job: str) -> str:
    """Return the id of a job's thread. A fork has none of the jobs of its source."""
    return f"{thread_id[:LONGEST]}/bg/{job}"
