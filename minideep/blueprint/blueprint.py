"""`Blueprint`: an agent whose model is a policy, and whose tools are planner, subagent pool, cleanup and reflection."""

import warnings
from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import Annotated, Any, Self

from msgspec import Meta, structs

from ..agent import Agent
from ..backends import StateBackend
from ..checkpoint import history
from ..checkpoint.journal import Durability
from ..checkpoint.log import Log, read_state, recall
from ..checkpoint.redaction import Redact
from ..checks import check, checked
from ..errors import ConfigError
from ..kinds import Positive
from ..messages import Input, Text, UserMessage, as_message, to_json
from ..middleware import HumanInTheLoopMiddleware
from ..models import Policy, resolve
from ..ports import Backend, Middleware, Model, Store
from ..runtime.spec import check_prices
from ..runtime.stream import Stream
from ..state import BoundaryNumber, Limits, ThreadId
from ..tools import Tool
from ..turn import Turn
from . import state as boards
from .files import INLINE_SIZE_LIMIT_BYTES, MAX_FILE_AGE_STEPS, STATE_LIMIT_BYTES, VirtualFiles
from .graph import Topology, decide
from .planner import PROMPT_LIMIT, Planner
from .pool import SubagentPool
from .reflection import MAX_REFLECTION_DEPTH, Reflection
from .roles import STOCK_ROLES, Role, by_name
from .state import OWNER, Board

TYPICAL_ROLES = range(3, 9)


@checked
class Blueprint(Agent):
    """Planner, subagent pool, virtual files and bounded reflection, on one thread.

    A turn plans, has subtasks done in waves, reflects, and goes on until it has an answer (`ended`, with `turn.text`)
    or a question (`escalated`, with `turn.question`; `run(answer, thread_id)` goes on). All verbs are those of an
    `Agent`: the parts are runs below its calls.

    * *model* is what every part uses that names none of its own; *planner_model* and *reflection_model* are theirs.
    * *roles*: 3 to 8 are usual; other numbers are warned of, and refused if *strict*. None: `STOCK_ROLES`. A
      later role takes the place of an earlier one of its name: `[*STOCK_ROLES, Role(...)]`.
    * *max_reflection_depth*: how often reflection is asked in one turn; then the turn escalates.
    * *max_file_age_steps*: steps (subtasks) after which a file is evicted; a done one goes after 3. Names that fit one
      of the patterns in *pinned* stay.
    * *inline_limit*: bytes of a file (at most 102,400) over which the store keeps it apart; *state_limit*: bytes of the
      whole state at the end of a turn.
    * *backend* is where artifacts are; by default the thread's own state.
    * *limits*: `tokens`, `cost` and `seconds` are budgets of a turn, which escalates when one is used up, or when it is
      not known how much of it is; the other limits are those of each subagent that has none of its own.
    * *approve_plan*: every plan waits for a person, who may edit it (`Agent.resume` of the call `approve_plan`).
    * *durability*, *version*, *continues* and *redact* are as for `Agent`.
    * *planner_prompt_limit*: characters that the planner's system prompt may have.

    Raises:
        ConfigError: one of these is not usable.
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
        approve_plan: bool = False,
        strict: bool = False,
        planner_prompt_limit: Positive = PROMPT_LIMIT,
        durability: Durability = "turn",
        name: str = "blueprint",
        version: str = "",
        continues: Iterable[str] = (),
        redact: Redact | None = None,
    ) -> None:
        own, limits = resolve(model), limits or Limits()
        pool = _checked_pool(STOCK_ROLES if roles is None else roles, strict)
        self.files = VirtualFiles(backend or StateBackend(), inline_limit, state_limit, max_file_age_steps, pinned)
        self.planner = Planner(_or(planner_model, own), pool.values(), self.files, planner_prompt_limit)
        each = structs.replace(limits, tokens=None, cost=None, seconds=None)
        self.pool = SubagentPool(pool, own, self.files, each)
        self.reflection = Reflection(_or(reflection_model, own), self.files, max_reflection_depth)
        budgets = Limits(None, None, limits.tokens, limits.cost, limits.seconds)
        tools: list[Callable[..., Any]] = [self.planner.planner, self.pool.subagent_dispatcher]
        tools += [self.reflection.reflection, self.files.cleanup]
        middleware: list[Middleware] = [Topology(self.files, budgets, approving=approve_plan)]
        if approve_plan:
            tools.append(self.planner.approve_plan)
            middleware.append(HumanInTheLoopMiddleware({"approve_plan": True}))
        kept: dict[str, Any] = {"checkpointer": checkpointer, "durability": durability, "redact": redact}
        kept |= {"name": name, "version": version, "continues": continues}
        super().__init__(Policy(decide), tools, "", middleware, limits=budgets, **kept)
        self._check_prices()

    @property
    def agents(self) -> dict[str, Agent]:
        """The agents that do the work, by name: `planner`, `reflection`, and each role."""
        return {"planner": self.planner.agent, "reflection": self.reflection.agent, **self.pool.agents}

    def with_models(self, wrap: Callable[[str, Model], Model]) -> Self:
        """A copy, with the same threads, in which each of the `agents` asks `wrap(its name, its model)` instead.

        Raises:
            ConfigError: what *wrap* returns is no model, or has no price though there is a budget of money.
        """

        def wrapped(agent: Agent) -> Agent:
            mine = copy(agent)
            model = wrap(agent.spec.name, agent.spec.model)
            check(model, Model, "what wrap returns", "Blueprint.with_models")
            mine.spec = structs.replace(agent.spec, model=model)
            return mine

        other = copy(self)
        planner, pool, reflection = copy(self.planner), copy(self.pool), copy(self.reflection)
        planner.agent, reflection.agent = wrapped(planner.agent), wrapped(reflection.agent)
        pool.agents = {name: wrapped(agent) for name, agent in pool.agents.items()}
        other.planner, other.pool, other.reflection = planner, pool, reflection
        parts = (planner.planner, planner.approve_plan, pool.subagent_dispatcher, reflection.reflection)
        tools = self.spec.tools | {part.__name__: Tool(part) for part in parts if part.__name__ in self.spec.tools}
        other.spec = structs.replace(self.spec, tools=tools, tool_list=tuple(tools.values()))
        other._check_prices()
        return other

    def _check_prices(self) -> None:
        for agent in self.agents.values():
            for owner in (self, agent):
                check_prices(agent.spec, owner.spec.limits, owner.spec.name)

    async def run(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Turn:
        """As `Agent.run`; *input* is text: a goal, or, after a turn that did not end, the answer to its question.

        Raises:
            ConfigError: it is no text, or too long to be remembered.
            ThreadBusy, ThreadConflict, CheckpointError: as `Agent.run`.
        """
        return await super().run(self._goal(input), thread_id, context=context, wait=wait)

    def stream(
        self, input: Input, thread_id: ThreadId | None = None, *, context: Any = None, wait: bool = False
    ) -> Stream:
        """`run`, telling what happens while it happens."""
        return super().stream(self._goal(input), thread_id, context=context, wait=wait)

    async def preload(self) -> None:
        """Import what the models need now rather than at the first question."""
        for agent in self.agents.values():
            await agent.preload()

    def board(self, thread_id: ThreadId, *, at: BoundaryNumber | None = None) -> Board:
        """What the blueprint remembers of a thread, now or at a boundary: plan, files, step, decision, ledger, ...

        Raises:
            UnknownThread, CheckpointError, ConfigError, HistoryCut: as `get_state`.
        """
        return boards.read_whole(self.get_state(thread_id, at=at))

    def artifact(self, thread_id: ThreadId, name: str) -> str | bytes | None:
        """What an artifact holds, by its name, its file's or its SHA-256, even if it was evicted; None where a disk
        held it and does no more.

        Raises:
            ConfigError: there is none.
            UnknownThread, CheckpointError: the thread, or its content, cannot be read.
        """

        def found(log: Log) -> str | bytes | None:
            state = read_state(log, None, False)
            names = self.files.names(state, boards.read(state).ledger)
            one = names.get(name) or next((one for one in names.values() if one.sha256 == name), None)
            if one is None:
                there = ", ".join(names) or "none"
                raise ConfigError(f"thread {thread_id!r} has no artifact {name!r}; there are {there}")
            return recall(log, one.path, one.sha256)

        return self._read(thread_id, found)

    def trace(self, thread_id: ThreadId) -> list[str]:
        """What each part of every turn did, in order, a line of JSON each: names, sizes, decisions, seconds, tokens;
        never the content of a file.

        Raises:
            UnknownThread, CheckpointError
        """
        done = self._read(thread_id, lambda log: list(history.noted(log, OWNER, "ledger")))
        return [to_json(record).decode() for record in done]

    def _goal(self, input: Input) -> UserMessage:
        message = as_message(input)
        if not isinstance(message.content, str) and any(not isinstance(block, Text) for block in message.content):
            raise ConfigError("a blueprint's goal is text: planner and roles are given nothing else")
        size, most = len(message.text.encode()), self.files.state_limit // 10
        if size > most:
            raise ConfigError(
                f"the goal has {size:,} bytes, at most {most:,} are remembered; put the rest of the input in a file"
            )
        return message


def _or(model: str | Model | None, own: Model) -> Model:
    return own if model is None else resolve(model)


def _checked_pool(roles: Iterable[Role], strict: bool) -> dict[str, Role]:
    pool = by_name(roles)
    if len(pool) not in TYPICAL_ROLES:
        first, last = TYPICAL_ROLES[0], TYPICAL_ROLES[-1]
        found = f"a pool usually has {first} to {last} roles, this one has {len(pool)}"
        if strict:
            raise ConfigError(found)
        warnings.warn(found, stacklevel=4)  # Over the checks of the constructor.
    return pool
