"""Calls as they are recorded: with unique ids, as some servers say `call_0` in every reply, and arguments that fit."""

from collections.abc import Mapping

from msgspec import structs

from ..messages import AssistantMessage, ToolCall
from ..state import Path, State
from ..tools import Tool


class CallIds:
    """The ids that the calls and the children of each run have. Collected once: a look at every reply would make a step
    cost more and more.
    """

    def __init__(self) -> None:
        self._by_run: dict[Path, set[str]] = {}

    def as_recorded(
        self,
        message: AssistantMessage,
        path: Path,
        states: Mapping[Path, State],
        runs: Mapping[Path, object],
        number: int,
        tools: Mapping[str, Tool],
    ) -> AssistantMessage:
        """Return a reply in the run at *path* with a new id for each call that has none, or whose id is taken; and with
        the arguments of each call as its tool takes them.

        An id must identify one call in all that is shown to the model, one waiting call, and one child run; otherwise
        the answer to one call could be given to another. *number*, of the event that will hold the reply, makes new ids
        unique.
        """
        if isinstance(message.content, str):
            return message
        taken = self._by_run.get(path)
        if taken is None:
            taken = self._collect(path, states[path], runs)
        root, blocks = states[()], list(message.content)
        waiting = {wait.call_id for wait in root.interrupts} if root.open else set[str]()
        for place, block in enumerate(message.content):
            if isinstance(block, ToolCall):
                tool = tools.get(block.name)
                call = block.as_json() if tool is None else tool.normalized(block)
                # A slash separates the key of a child from its call.
                if not call.id or call.id in taken or call.id in waiting or "/" in call.id:
                    call = structs.replace(call, id=_new_id(f"call_{number}_{place}", taken, waiting))
                blocks[place] = call
                taken.add(call.id)
        return AssistantMessage(tuple(blocks))

    def _collect(self, path: Path, state: State, runs: Mapping[Path, object]) -> set[str]:
        """Collect and return the ids of the run at *path*: of the calls in its context, and of its children."""
        replies = (message for message in state.messages if isinstance(message, AssistantMessage))
        shown = (call.id for reply in replies for call in reply.calls)
        below = runs if path in runs or not path else ()  # A new run has none.
        children = (other[-1].split("/")[0] for other in below if other[:-1] == path)
        ids = self._by_run[path] = {*shown, *children}
        return ids

    def forget_children(self) -> None:
        """Keep those of the main run only."""
        self._by_run = {path: ids for path, ids in self._by_run.items() if not path}


def _new_id(wanted: str, taken: set[str], waiting: set[str]) -> str:
    new_id, count = wanted, 0
    while new_id in taken or new_id in waiting:
        count += 1
        new_id = f"{wanted}_{count}"
    return new_id
