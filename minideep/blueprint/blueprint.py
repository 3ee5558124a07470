"""`Blueprint`: an agent with computed replies, whose tools are planner, subagent pool, reflection and cleanup."""

import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Annotated, Any

from msgspec import Meta, structs

from ..agent import Agent
from ..backends import FilesystemBackend, StateBackend
from ..checkpoint import Durability, Redact, noted, recall, recallable
from ..checks import checked
from ..errors import CheckpointError, ConfigError, UnknownThread
from ..kinds import Positive, Seconds
from ..messages import Input, Text
from ..models import Policy, resolve
from ..plain_json import to_json
from ..ports import Backend, Middleware, Model, Store
from ..runtime import check_prices, overridden
from ..spec import AgentSpec, Said, read_input
from ..state import BUDGETS, BoundaryNumber, Limits, ThreadId
from .files import INLINE_SIZE_LIMIT_BYTES, MAX_FILE_AGE_STEPS, STATE_LIMIT_BYTES, VirtualFiles
from .graph import middleware_of
from .planner import PROMPT_LIMIT, Planner
from .pool import MAX_PARALLEL, SubagentPool
from .reflection import MAX_REFLECTION_DEPTH, Reflection
from .roles import STOCK_ROLES, Role, roles_by_name
from .state import OWNER, Board, read_board, read_whole_board
from .structured import PART_TIMEOUT

TYPICAL_ROLES = range(3, 9)


@checked
class Blueprint(Agent):
    """Planner, subagent pool, virtual files and bounded reflection, on one thread.

    A turn plans, runs subtasks in waves, reflects, and repeats this until it has an answer (`ended`, with `turn.text`)
    or a question (`escalated`, with `turn.question`; answer it with `run(answer, thread_id)`). All verbs of `Agent`
    work: the parts are runs below the blueprint's calls.

    * *model* is asked by every part that has no model of its own; *planner_model* and *reflection_model* set theirs.
    * *roles*: usually 3 to 8. Another number raises a warning, or an error if *strict*. None: `STOCK_ROLES`. A later
      role replaces an earlier one of the same name: `[*STOCK_ROLES, Role(...)]`.
    * *max_reflection_depth*: how many replies of reflection a turn may take before it escalates.
    * *max_file_age_steps*: steps (subtasks) after which a file is evicted; a file that is done goes after 3. Files
      whose name matches a pattern in *pinned* stay.
    * *inline_limit*: a file over this many bytes (at most 102,400) is kept in the store, outside the state;
      *state_limit*: bytes of the whole state at the end of a turn.
    * *max_parallel*: how many subtasks of a wave run at a time.
    * *planner_timeout* and *reflection_timeout*: seconds that each of the two may take to reply; after that the turn
      fails, and can be resumed. None: no limit.
    * *middleware*: as of any `Agent`: its tool hooks guard the tools of every role. A hook of `before_model`,
      `wrap_model` or `before_finish` is called for the parts if its class says `inherit = True`.
    * *backend*: where artifacts are written. None: the thread's own state.
    * *limits*: `tokens`, `cost` and `seconds` are budgets of the turn, which escalates when one is used up, or when
      the amount spent is unknown. The other limits apply to each subagent whose role has none of its own.
    * *approve_plan*: every plan waits for a person, who may edit it (resume the turn with a decision for the call
      `approve_plan`).
    * *durability*, *version*, *continues* and *redact* are those of `Agent`.
    * *planner_prompt_limit*: characters that the planner's system prompt may have.

    The input is text: a goal, or the answer to the last turn's question. Anything else, or text that is longer than a
    tenth of *state_limit*, is a `ConfigError`.

    Raises:
        ConfigError: an argument is not usable.
    """

    def __init__(
        self,
        model: str | Model,
        roles: Iterable[Role] | None = None,
        *,
        planner_model: str | Model | None = None,
        reflection_model: str | Model | None = None,
        max_reflection_depth: Positive = MAX_REFLECTION_DEPTH,
        max_file_age_steps: Positive = MAX_FILE_AGE_STEPS,
        inline_limit: Annotated[int, Meta(gt=0, le=INLINE_SIZE_LIMIT_BYTES)] = INLINE_SIZE_LIMIT_BYTES,
        state_limit: Positive = STATE_LIMIT_BYTES,
        backend: Backend | None = None,
        checkpointer: Store | None = None,
        limits: Limits | None = None,
        pinned: Collection[str] = (),
        middleware: Iterable[Middleware] = (),
        max_parallel: Positive = MAX_PARALLEL,
        planner_timeout: Seconds | None = PART_TIMEOUT,
        reflection_timeout: Seconds | None = PART_TIMEOUT,
        approve_plan: bool = False,
        strict: bool = False,
        planner_prompt_limit: Positive = PROMPT_LIMIT,
        durability: Durability = "turn",
        name: str = "blueprint",
        version: str = "",
        continues: Iterable[str] = (),
        redact: Redact | None = None,
    ) -> None:
        own, pool = resolve(model), _checked_pool(STOCK_ROLES if roles is None else roles, strict)
        backend, limits = backend or StateBackend(), limits or Limits()
        self.files: VirtualFiles = VirtualFiles(backend, inline_limit, state_limit, max_file_age_steps, pinned)
        self.files.recallable = lambda thread_id: recallable(self._store, thread_id)
        below = structs.replace(limits, **dict.fromkeys(BUDGETS))
        self.pool: SubagentPool = SubagentPool(pool, own, self.files, below, max_parallel)
        asked = _or(planner_model, own)
        self.planner: Planner = Planner(asked, pool, self.files, planner_prompt_limit, planner_timeout)
        asked = _or(reflection_model, own)
        self.reflection: Reflection = Reflection(asked, self.files, max_reflection_depth, reflection_timeout)
        kept: dict[str, Any] = {"checkpointer": checkpointer, "durability": durability, "redact": redact}
        kept |= {"name": name, "version": version, "continues": continues}
        self._put_together(limits, approve_plan, middleware, kept)

    def _put_together(self, limits: Limits, approving: bool, more: Iterable[Middleware], kept: dict[str, Any]) -> None:
        """Make the agent whose tools are the parts."""
        # Without the limit of steps: the number of a blueprint's own steps is bounded by *max_reflection_depth*.
        budgets = Limits(None, None, limits.tokens, limits.cost, limits.seconds)
        tools: list[Callable[..., Any]] = [self.planner.planner, self.pool.subagent_dispatcher]
        tools += [self.reflection.reflection, self.files.cleanup, *([self.planner.approve_plan] if approving else [])]
        parts = middleware_of(self.files, self.pool.roles, budgets, more, approving=approving)
        # The graph replies in its place. Asking it is free, so a spent budget cannot keep the graph from its question.
        super().__init__(Policy(lambda request: ""), tools, "", parts, limits=budgets, **kept)
        self.spec: AgentSpec = structs.replace(self.spec, accept=self._goal)
        self._check_prices()

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents that ask models, by name: `planner`, `reflection`, and each role."""
        return {"planner": self.planner.agent, "reflection": self.reflection.agent, **self.pool.agents}

    def _check_prices(self) -> None:
        for agent in self.agents.values():
            for owner in (self, agent):
                check_prices(agent.spec, owner.spec.limits, owner.spec.name)

    async def preload(self) -> None:
        """Import the SDKs of the models now instead of at the first request."""
        if overridden(self.spec) is self.spec:  # Otherwise none of them is asked.
            for agent in self.agents.values():
                await agent.preload()

    def _models(self) -> tuple[Model, ...]:
        if overridden(self.spec) is not self.spec:
            return super()._models()
        return tuple(agent.spec.model for agent in self.agents.values())

    def board(self, thread_id: ThreadId, *, at: BoundaryNumber | None = None) -> Board:
        """Return what the blueprint remembers of a thread, now or at a boundary: goal, plan, files, decision, ledger.

        Raises:
            UnknownThread, CheckpointError, ConfigError, HistoryCut: as `get_state`.
        """
        return read_whole_board(self.get_state(thread_id, at=at))

    def artifact(self, thread_id: ThreadId, name: str) -> str | bytes | None:
        """Return the content of an artifact, even if it was evicted. *name* is its name, its file's, or its SHA-256.

        Returns None if only a disk holds the content, or if the log no longer reaches back to it.

        Raises:
            ConfigError: no artifact has this name.
            UnknownThread, CheckpointError: the thread, or the content, cannot be read.
        """
        state = self.get_state(thread_id)
        files = self.files.by_name(state, read_board(state).ledger)
        ref = files.get(name) or next((ref for ref in files.values() if ref.sha256 == name), None)
        if ref is None:
            there = ", ".join(files) or "none"
            raise ConfigError(f"thread {thread_id!r} has no artifact {name!r}; artifacts: {there}")
        return recall(self._store, thread_id, ref.path, ref.sha256)

    def delivered(self, thread_id: ThreadId) -> dict[str, str]:
        """Return the status of each artifact that the thread has delivered, by its name in the plan and by its file's.

        It is `done`, or `active` for a draft. The last version counts.

        Raises:
            UnknownThread, CheckpointError: the thread cannot be read.
        """
        written = [entry for entry in noted(self._store, thread_id, OWNER, "ledger") if "file" in entry]
        return {name: entry["status"] for entry in written for name in (entry["artifact"], entry["file"])}

    def delete(self, thread_id: ThreadId) -> None:
        """Remove a thread, with every run below it and the files that only it refers to.

        Artifacts on a disk go too: those in the folder of a `FilesystemBackend` that nobody has changed since, and that
        no other thread of the store has delivered as well.

        Raises:
            UnknownThread, ThreadBusy, CheckpointError: as `Agent.delete`; nothing was removed.
        """
        own = dict[str, str]()
        with suppress(UnknownThread):  # Then nothing of it was ever saved.
            own = self._on_disk(thread_id)
        super().delete(thread_id)
        try:
            for other in self.threads() if own else ():
                theirs = self._on_disk(other.thread_id)
                own = {path: sha256 for path, sha256 in own.items() if path not in theirs}
        except CheckpointError:  # Nobody knows what that thread has delivered, so nothing may go.
            return
        self.files.remove(own)

    def _on_disk(self, thread_id: str) -> dict[str, str]:
        """Return the artifacts that a thread has written to a disk, by path, with the hash of each."""
        if not isinstance(self.files.backend, FilesystemBackend):
            return {}
        ledger = noted(self._store, thread_id, OWNER, "ledger")
        return {f"/{entry['file']}": entry["sha256"] for entry in ledger if "file" in entry}

    def trace(self, thread_id: ThreadId) -> list[str]:
        """Return what each part of every turn did, in order: names, sizes, decisions, seconds, tokens.

        Each line is JSON. None holds the content of a file.

        Raises:
            UnknownThread, CheckpointError: the thread cannot be read.
        """
        return [to_json(entry).decode() for entry in noted(self._store, thread_id, OWNER, "ledger")]

    def _goal(self, input: Input, model: Model) -> Said:
        earlier, message = read_input(input, model)
        if earlier:
            raise ConfigError("a blueprint takes no history, but one goal: say in its text what was said before")
        if not isinstance(message.content, str) and any(not isinstance(block, Text) for block in message.content):
            raise ConfigError("a blueprint's goal must be text: planner and roles read nothing else")
        size, limit = len(message.text.encode()), self.files.state_limit // 10
        if size > limit:
            found = f"the goal has {size:,} bytes, and the state has room for {limit:,}"
            raise ConfigError(f"{found}; put the rest of the input in a file")
        return (), message


def _or(model: str | Model | None, own: Model) -> Model:
    return own if model is None else resolve(model)


def _checked_pool(roles: Iterable[Role], strict: bool) -> dict[str, Role]:
    pool = roles_by_name(roles)
    if len(pool) not in TYPICAL_ROLES:
        first, last = TYPICAL_ROLES[0], TYPICAL_ROLES[-1]
        found = f"a pool usually has {first} to {last} roles; this one has {len(pool)}"
        if strict:
            raise ConfigError(found)
        warnings.warn(found, stacklevel=4)  # The caller of the constructor, past `checked`.
    return pool
