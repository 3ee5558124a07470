"""A trajectory: all that one turn was, said and asked, for assertions to look at."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from msgspec import Struct, structs

from ..agent import Agent
from ..blueprint import Blueprint, Board, Role
from ..blueprint.state import read_whole_board
from ..checkpoint import format as codec
from ..messages import from_json
from ..ports import Emit, Model, Reply, Request
from ..state import State
from ..turn import Turn
from .golden import Golden

Asked = tuple[str, Request]
"""The name of an agent, and what its model was asked."""


class Trajectory(Struct, frozen=True):
    """One golden's turn, over and read back."""

    golden: Golden
    turn: Turn
    state: State
    """What the store holds of the thread, with its subagents."""
    board: Board
    """The same as a blueprint sees it, with the whole ledger; of an agent that is none it is empty."""
    requests: tuple[Asked, ...]
    """Every question to a model, in order: a blueprint's planner, reflection and roles by name, an agent's own."""
    roles: Mapping[str, Role]
    """A blueprint's roles, by name."""
    state_bytes: int
    """What the state takes up as the store writes it, without its subagents and the files that are kept apart."""


Assertion = Callable[[Trajectory], str | None]
"""Says what is wrong, or None. What it raises is wrong as well."""


class Recording:
    """A model that keeps what its agent asks, and is *model* in everything else."""

    name: str

    def __init__(self, agent: str, model: Model, asked: list[Asked]) -> None:
        self._agent, self._model, self._asked = agent, model, asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        self._asked.append((self._agent, request))
        return await self._model.complete(request, emit)


async def walk(agent: Agent, golden: Golden, thread_id: str) -> Trajectory:
    """Run one golden as the turn of a new thread.

    Raises:
        MinideepError: as `Agent.run`; or the turn could not be saved, or not be read back.
    """
    asked: list[Asked] = []
    turn = await _recorded(agent, asked).run(golden.goal, thread_id)
    if not turn.saved and turn.error:
        raise turn.error
    state = agent.get_state(thread_id, subagents=True)
    board = read_whole_board(state)
    if isinstance(agent, Blueprint):
        board.ledger = [from_json(line) for line in agent.trace(thread_id)]
    size = len(codec.encode_state(structs.replace(state, subagents={})))
    return Trajectory(golden, turn, state, board, tuple(asked), _roles(agent), size)


def _roles(agent: Agent) -> Mapping[str, Role]:
    """The roles as they were given: what the blueprint made of them is what is in question."""
    return agent.pool.roles if isinstance(agent, Blueprint) else {}


def _recorded(agent: Agent, asked: list[Asked]) -> Agent:
    """A copy of *agent*, on the same threads, whose questions are added to *asked*."""
    if isinstance(agent, Blueprint):
        return agent.with_models(lambda name, model: Recording(name, model, asked))
    mine = copy(agent)
    mine.spec = structs.replace(agent.spec, model=Recording(agent.spec.name, agent.spec.model, asked))
    return mine
