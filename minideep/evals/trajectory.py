"""A trajectory: one turn with its state and every request to a model, for assertions to check."""

from collections.abc import Callable, Mapping
from copy import copy

from msgspec import structs

from ..agent import Agent
from ..blueprint import Blueprint, Board, Role
from ..checkpoint import encode_state
from ..context import ToolContext
from ..documented import Struct
from ..plain_json import from_json
from ..ports import Ask, Middleware, Reply, Request
from ..runtime import inheriting
from ..state import State
from ..turn import Turn
from .golden import Golden

Asked = tuple[str, Request]
"""The name of an agent, and a request to its model."""


class Trajectory(Struct, frozen=True):
    """The turn of one golden, as read back from the store."""

    golden: Golden
    turn: Turn
    state: State
    """The state of the thread, with its subagents."""
    board: Board
    """The blueprint's record of the thread, with the whole ledger. Empty for any other agent."""
    requests: tuple[Asked, ...]
    """Every request to a model, in order. Those of a blueprint name the planner, reflection or a role."""
    roles: Mapping[str, Role]
    """A blueprint's roles, by name."""
    state_bytes: int
    """Bytes of the state as the store writes it, without subagents and without files that the store keeps apart."""


Assertion = Callable[[Trajectory], str | None]
"""A check of a trajectory: returns what is wrong, or None. Raising an exception fails it too."""


class Recorder(Middleware):
    """Notes each request to a model, in the runs below its agent as well."""

    inherit: bool | None = True

    def __init__(self, requests: list[Asked]) -> None:
        self._requests = requests

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        self._requests.append((ctx.state.agent, request))
        return await ask(request)


async def walk(agent: Agent, golden: Golden, thread_id: str) -> Trajectory:
    """Run one golden as the turn of a new thread.

    Raises:
        MinideepError: as `Agent.run`, or the turn could not be saved or read back.
    """
    asked: list[Asked] = []
    turn = await _recorded(agent, asked).run(golden.goal, thread_id)
    if not turn.saved and turn.error:  # The store does not have the turn, so nothing of it could be read back.
        raise turn.error
    state = agent.get_state(thread_id, subagents=True)
    board, roles = Board(), dict[str, Role]()
    if isinstance(agent, Blueprint):
        # The roles as their author wrote them: an assertion compares the requests with these.
        board, roles = agent.board(thread_id), dict(agent.pool.roles)
        board.ledger = [from_json(line) for line in agent.trace(thread_id)]
    size = len(encode_state(structs.replace(state, subagents={})))
    if isinstance(agent, Blueprint):  # Its own model is its graph, which no assertion is about.
        asked = [one for one in asked if one[0] != agent.spec.name]
    return Trajectory(golden, turn, state, board, tuple(asked), roles, size)


def _recorded(agent: Agent, requests: list[Asked]) -> Agent:
    """Return a copy of *agent*, on the same threads, that adds its requests to *requests*."""
    mine = copy(agent)
    mine.spec = inheriting(agent.spec, (Recorder(requests),))
    return mine
